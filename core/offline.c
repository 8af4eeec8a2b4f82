#include "offline.h"

#include <string.h>
#include <sys/stat.h>

#include "base/command_option.h"
#include "check/check.h"
#include "rules/spec/spec.h"
#include "share.h"

struct offline_verb {
	const char *name;
	const char *summary;
	const char *details;
	const struct command_option *options; /* ends in a NULL name; or NULL */
	int (*run)(const struct check_options *o);
};

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int run_specs(const struct check_options *o)
{
	return spec_run(o->dir, o->lua_dir);
}

static const struct command_option check_options[] = {
	{ COMMAND_TEXT("definitions", "FILE", NULL,
		       "lines of DECLARE and BIND as in the protocol; '#' begins a "
		       "comment") },
	{ COMMAND_TEXT("url", "URL", NULL,
		       "the definitions of the broker there, in the vhost of the URL") },
	{ .name = NULL },
};

static const struct command_option common_options[] = {
	{ COMMAND_FLAG("help", "print this page") },
	{ .name = NULL },
};

static const struct offline_verb verbs[] = {
	{ "check", "look for mistakes in a rules directory before it goes live",
	  "Loads every script as a broker would, and reports each that does not\n"
	  "load with file and line.\n"
	  "\n"
	  "Of the scripts that load, it reports what luacheck finds, if it is\n"
	  "installed; files that nothing loads; filters that look like copies of\n"
	  "each other; functions that are defined twice; matches that match\n"
	  "hardly anything. Lines with \"note:\" do not affect the exit status.\n"
	  "\n"
	  "With definitions it also reports types, strategies and options that do\n"
	  "not exist or are refused; exchanges that filters and schedules name,\n"
	  "and targets of dead letters, that do not exist; dead letters and\n"
	  "bindings that lead back to where they start.",
	  check_options, check_run },
	{ "test", "run the specs (*_spec.lua) of a rules directory",
	  "Runs each DIR/**/*_spec.lua with busted and the real rule engine:\n"
	  "\n"
	  "  local tidemq = require \"tidemq\"\n"
	  "  local engine = assert(tidemq.open())\n"
	  "  local retry = assert(engine:strategy(\"retry\", \"exponential\",\n"
	  "    { base = \"1s\" }))\n"
	  "  assert.equal(2000, retry:decide({}, { failures = 2 }))\n"
	  "\n"
	  "engine:set_now(ms) and engine:seed(n) fix tide.now and tide.random.\n"
	  "Specs run with your rights; only `require \"socket\"` and os.exit are\n"
	  "refused. docs/rules.md describes all functions.",
	  NULL, run_specs },
};
#define VERB_COUNT (sizeof(verbs) / sizeof(verbs[0]))

static const struct offline_verb *find_verb(const char *name)
{
	for (size_t i = 0; i < VERB_COUNT; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

bool offline_has(const char *verb)
{
	return find_verb(verb) != NULL;
}

void offline_help_list(FILE *out)
{
	for (size_t i = 0; i < VERB_COUNT; i++)
		fprintf(out, "  %-8s %s\n", verbs[i].name, verbs[i].summary);
}

bool offline_help(FILE *out, const char *verb)
{
	const struct offline_verb *v = find_verb(verb);
	struct buf options;

	if (!v)
		return false;
	buf_init(&options);
	command_option_help(v->options, &options);
	command_option_help(common_options, &options);
	fprintf(out,
		"usage: tidemq %s [options] DIR\n\n%s.\n\n%s\n\noptions:\n%s\n"
		"exit status: 0 no problem, 1 problems, 2 wrong usage\n",
		v->name, v->summary, v->details, buf_cstr(&options));
	buf_deinit(&options);
	return true;
}

static int usage_error(const char *verb, const char *what)
{
	fprintf(stderr, "tidemq %s: %s; see tidemq help %s\n", verb, what, verb);
	return 2;
}

static const char *text_of(const struct command_line *line, const char *name)
{
	const struct command_given *given = command_option_given(line, name);

	return given ? given->text : NULL;
}

int offline_main(int argc, char **argv)
{
	const struct offline_verb *v = find_verb(argv[0]);
	struct command_line line = { .options = v->options, .common = common_options };
	struct check_options options = { .lua_dir = share_lua_dir() };
	struct error err;

	if (command_option_parse(&line, argc, argv, &err) < 0)
		return usage_error(v->name, err.text);
	if (command_option_given(&line, "help")) {
		offline_help(stdout, v->name);
		return 0;
	}
	if (line.word_count != 1)
		return usage_error(v->name, "give one rules directory");
	options.dir = line.words[0];
	options.url = text_of(&line, "url");
	options.definitions = text_of(&line, "definitions");
	if (!is_dir(options.dir)) {
		fprintf(stderr, "tidemq: '%s' is not a directory\n", options.dir);
		return 2;
	}
	return v->run(&options);
}
