#include "offline.h"

#include <string.h>
#include <sys/stat.h>

#include "check/check.h"
#include "rules/spec/spec.h"
#include "share.h"

struct offline_verb {
	const char *name;
	const char *summary;
	const char *details;
	const char *usage;
	bool takes_definitions; /* --url and --definitions */
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
	  "bindings that lead back to where they start.\n"
	  "\n"
	  "  --definitions FILE  lines of DECLARE and BIND as in the protocol;\n"
	  "                      '#' begins a comment\n"
	  "  --url URL           the definitions of the broker there, in the\n"
	  "                      URL's vhost",
	  "[--definitions FILE] [--url URL] ", true, check_run },
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
	  "", false, run_specs },
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

	if (!v)
		return false;
	fprintf(out,
		"usage: tidemq %s %sDIR\n\n%s.\n\n%s\n\nexit status: 0 no problem, 1 "
		"problems, 2 wrong usage\n",
		v->name, v->usage, v->summary, v->details);
	return true;
}

static int usage(const struct offline_verb *v)
{
	fprintf(stderr, "tidemq: %s takes one rules directory; see tidemq help %s\n",
		v->name, v->name);
	return 2;
}

/* The value of the option at `*i`, "--name VALUE" or "--name=VALUE"; NULL for another
 * option or a missing value. */
static const char *option_value(char **argv, int argc, int *i, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(argv[*i], name, len) != 0)
		return NULL;
	if (argv[*i][len] == '=')
		return argv[*i] + len + 1;
	return argv[*i][len] == '\0' && *i + 1 < argc ? argv[++*i] : NULL;
}

/* False for words that the verb does not take. */
static bool parse(const struct offline_verb *v, int argc, char **argv,
		  struct check_options *o)
{
	for (int i = 1; i < argc; i++) {
		const char *value;

		if (v->takes_definitions &&
		    (value = option_value(argv, argc, &i, "--url")))
			o->url = value;
		else if (v->takes_definitions &&
			 (value = option_value(argv, argc, &i, "--definitions")))
			o->definitions = value;
		else if (argv[i][0] == '-' || o->dir)
			return false;
		else
			o->dir = argv[i];
	}
	return o->dir != NULL;
}

int offline_main(int argc, char **argv)
{
	const struct offline_verb *v = find_verb(argv[0]);
	struct check_options options = { .lua_dir = share_lua_dir() };

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			offline_help(stdout, argv[0]);
			return 0;
		}
	}
	if (!parse(v, argc, argv, &options))
		return usage(v);
	if (!is_dir(options.dir)) {
		fprintf(stderr, "tidemq: '%s' is not a directory\n", options.dir);
		return 2;
	}
	return v->run(&options);
}
