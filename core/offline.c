#include "offline.h"

#include <string.h>
#include <sys/stat.h>

#include "rules_check.h"
#include "rules/spec.h"
#include "share.h"

struct offline_verb {
	const char *name;
	const char *summary;
	const char *details;
	bool takes_url;
	int (*run)(const char *dir, const char *lua_dir, const char *url);
};

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int run_specs(const char *dir, const char *lua_dir, const char *url)
{
	return spec_run(dir, lua_dir);
}

static const struct offline_verb verbs[] = {
	{ "check", "look a rules directory over before it goes live",
	  "DIR is loaded as a broker would load it, and linted when luacheck is "
	  "installed.\n"
	  "With --url URL it is held against what the broker there has: exchange types "
	  "and\n"
	  "strategies in use that DIR lacks, dead-letter targets that do not exist, "
	  "loops of\n"
	  "dead letters and of bindings, filters for exchanges that do not exist.",
	  true, check_run },
	{ "test", "run the specs (*_spec.lua) of a rules directory",
	  "Each DIR/**/*_spec.lua is run by busted, with the real rule engine at hand:\n"
	  "\n"
	  "  local tidemq = require \"tidemq\"\n"
	  "  local engine = assert(tidemq.open())\n"
	  "  local retry = assert(engine:strategy(\"retry\", \"exponential\", { base = "
	  "\"1s\" }))\n"
	  "  assert.equal(2000, retry:decide({}, { failures = 2 }))\n"
	  "\n"
	  "engine:set_now(ms) and engine:seed(n) fix tide.now and tide.random. There is "
	  "no\n"
	  "network. docs/rules.md has the whole of it.",
	  false, run_specs },
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
		"usage: tidemq %s %sDIR\n\n%s.\n\n%s\n\nexit status: 0 all is well, 1 "
		"something is "
		"wrong, 2 wrong usage\n",
		v->name, v->takes_url ? "[--url URL] " : "", v->summary, v->details);
	return true;
}

static int usage(const struct offline_verb *v)
{
	fprintf(stderr, "tidemq: %s takes one rules directory; see tidemq help %s\n",
		v->name, v->name);
	return 2;
}

int offline_main(int argc, char **argv)
{
	const struct offline_verb *v = find_verb(argv[0]);
	const char *dir = NULL, *url = NULL;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			offline_help(stdout, argv[0]);
			return 0;
		}
		if (v->takes_url && strcmp(argv[i], "--url") == 0 && i + 1 < argc)
			url = argv[++i];
		else if (v->takes_url && strncmp(argv[i], "--url=", 6) == 0)
			url = argv[i] + 6;
		else if (argv[i][0] == '-' || dir)
			return usage(v);
		else
			dir = argv[i];
	}
	if (!dir)
		return usage(v);
	if (!is_dir(dir)) {
		fprintf(stderr, "tidemq: '%s' is no directory\n", dir);
		return 2;
	}
	return v->run(dir, share_lua_dir(), url);
}
