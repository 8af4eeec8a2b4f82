#include "offline.h"

#include <string.h>
#include <sys/stat.h>

#include "rules/spec.h"
#include "share.h"

struct offline_verb {
	const char *name;
	const char *summary;
	const char *details;
	int (*run)(const char *dir, const char *lua_dir);
};

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static const struct offline_verb verbs[] = {
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
	  spec_run },
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
		"usage: tidemq %s DIR\n\n%s.\n\n%s\n\nexit status: 0 all is well, 1 "
		"something is "
		"wrong, 2 wrong usage\n",
		v->name, v->summary, v->details);
	return true;
}

int offline_main(int argc, char **argv)
{
	const struct offline_verb *v = find_verb(argv[0]);

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		offline_help(stdout, argv[0]);
		return 0;
	}
	if (argc != 2 || argv[1][0] == '-') {
		fprintf(stderr,
			"tidemq: %s takes one rules directory; see tidemq help %s\n",
			v->name, v->name);
		return 2;
	}
	if (!is_dir(argv[1])) {
		fprintf(stderr, "tidemq: '%s' is no directory\n", argv[1]);
		return 2;
	}
	return v->run(argv[1], share_lua_dir());
}
