#include "offline.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "check/check.h"
#include "rules/engine/script_kind.h"
#include "rules/engine/survey.h"
#include "rules/sandbox/source.h"
#include "rules/spec/spec.h"
#include "settings.h"
#include "share.h"

#define RULES_DIR_DEFAULT "./rules"

/* The rules directory of a broker that is started here. */
static const char *rules_dir_of(const struct cli *cli)
{
	return cli->word_count > 0 ? cli->words[0] : RULES_DIR_DEFAULT;
}

static int refuse_dir(const char *dir)
{
	if (access(dir, F_OK) == 0)
		cli_failure("'%s' is not a directory; name the rules directory, which "
			    "has filter/, retry/ and so on",
			    dir);
	else
		cli_failure("there is no rules directory '%s': make it, or name another",
			    dir);
	return CLI_USAGE;
}

/* --rules-set; before it what a broker gives that has started this. */
static int read_settings(const struct cli *cli, struct args *out)
{
	struct error err;

	*out = (struct args){ 0 };
	settings_inherit(out);
	for (int i = 0; i < cli->line.given_count; i++) {
		const struct command_given *given = &cli->line.given[i];

		if (strcmp(given->option->name, "rules-set") == 0 &&
		    settings_add(out, given->text, &err) != TIDE_OK)
			return cli_usage_error(cli, "%s", err.text);
	}
	return CLI_DONE;
}

static int run_check(struct cli *cli)
{
	struct args settings;
	int status = read_settings(cli, &settings);
	const struct check_options o = { .dir = rules_dir_of(cli),
					 .lua_dir = share_lua_dir(),
					 .url = cli_get(cli, "url"),
					 .definitions = cli_get(cli, "definitions"),
					 .settings = &settings,
					 .is_json = cli->json };

	if (status == CLI_DONE)
		status = share_is_dir(o.dir) ? check_run(&o) : refuse_dir(o.dir);
	args_deinit(&settings);
	return status;
}

static int run_test(struct cli *cli)
{
	const struct spec_options o = {
		.dir = rules_dir_of(cli),
		.lua_dir = share_lua_dir(),
		.filter = cli_get(cli, "filter"),
		.follows_links = cli_is_given(cli, "follow-links"),
		.timeout_ms = (int64_t)cli_number(cli, "timeout"),
		.memory_max_bytes = cli_number(cli, "memory"),
	};
	struct args settings;
	int status = read_settings(cli, &settings);

	if (status == CLI_DONE)
		settings_pass_on(&settings); /* to each open() of the specs */
	args_deinit(&settings);
	if (status != CLI_DONE)
		return status;
	return share_is_dir(o.dir) ? spec_run(&o) : refuse_dir(o.dir);
}

enum {
	TRIAL_RULES = 1,
	TRIAL_LUA,
	TRIAL_MEMORY,
	TRIAL_BUDGET,
	TRIAL_WITHIN,
	TRIAL_LIKE,
	TRIAL_SECRETS
};

int offline_trial(int argc, char **argv)
{
	struct args settings = { 0 };
	uint64_t memory, budget;
	int status;

	if (argc != TRIAL_SECRETS + 1 ||
	    !slice_to_uint(slice_from(argv[TRIAL_MEMORY]), SIZE_MAX / 2, &memory) ||
	    !slice_to_uint(slice_from(argv[TRIAL_BUDGET]), INT64_MAX / 2, &budget)) {
		fprintf(stderr, "tidemq: trial is for the broker alone\n");
		return CLI_USAGE;
	}
	settings_inherit(&settings);
	status = survey_try(&(struct trial_spec){ .rules_dir = argv[TRIAL_RULES],
						  .lua_dir = argv[TRIAL_LUA],
						  .memory_max_bytes = (size_t)memory,
						  .call_budget_ms = (int64_t)budget,
						  .within = argv[TRIAL_WITHIN],
						  .owned_like = argv[TRIAL_LIKE],
						  .secrets_dir = argv[TRIAL_SECRETS],
						  .settings = &settings });
	args_deinit(&settings);
	return status;
}

/* The URL may hold a password: $TIDEMQ_STORE keeps it out of sight, as for a broker. */
static int run_check_store(struct cli *cli)
{
	const char *of_environment = getenv("TIDEMQ_STORE");
	const struct audit_options o = {
		.store_url = cli_is_given(cli, "store") || !of_environment
				     ? cli_get(cli, "store")
				     : of_environment,
		.data_dir = cli_get(cli, "data"),
		.resume = cli_get(cli, "resume-from"),
		.is_repair = cli_is_given(cli, "repair"),
	};

	return audit_run(&o);
}

static const struct option_row store_options[] = {
	{ COMMAND_TEXT("store", "URL", "embedded",
		       "the store, as of tidemq serve; or $TIDEMQ_STORE") },
	{ COMMAND_TEXT("data", "DIR", "./data",
		       "where the embedded Redis keeps its files") },
	{ COMMAND_FLAG("repair", "mend what can be mended; no broker may run") },
	{ COMMAND_TEXT("resume-from", "PLACE", NULL,
		       "go on where an earlier run was interrupted") },
	{ .name = NULL },
};

#define RULES_SET_OPTION                                                                \
	{                                                                               \
		COMMAND_TEXT(                                                           \
			"rules-set", "NAME=VALUE", NULL,                                \
			"what tide.setting gives, as of tidemq serve; may be repeated") \
	}

static const struct option_row check_options[] = {
	RULES_SET_OPTION,
	{ COMMAND_TEXT("definitions", "FILE", NULL,
		       "lines of DECLARE and BIND as in the protocol; '#' begins a "
		       "comment") },
	{ COMMAND_TEXT("url", "URL", NULL,
		       "the definitions of the broker there, in the vhost of the URL") },
	{ COMMAND_FLAG("json", "print each finding as a JSON object on its own line") },
	{ .name = NULL },
};

static const struct option_row test_options[] = {
	RULES_SET_OPTION,
	{ COMMAND_TEXT("filter", "TEXT", NULL,
		       "run only the tests that have this in their name") },
	{ COMMAND_FLAG("follow-links", "run specs that are links to files outside of "
				       "DIR too") },
	{ COMMAND_DURATION("timeout", "60s", "for all specs together; 0 = for ever", 0,
			   0) },
	{ COMMAND_BYTES("memory", "1G", "of the process of the specs; 0 = no limit", 0,
			0) },
	{ .name = NULL },
};

/* clang-format off */
const struct cli_verb offline_verbs[] = {
	{ .name = "check",
	  .summary = "look for mistakes in a rules directory before it goes live",
	  .usage = "[options] [DIR]",
	  .details =
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
	  .examples = "  tidemq check ./rules\n"
		      "  tidemq check --url tide://127.0.0.1:7310/shop ./rules.next\n",
	  .options = check_options,
	  .words_max = 1,
	  .is_local = true,
	  .run = run_check },
	{ .name = "test",
	  .summary = "run the specs (*_spec.lua) of a rules directory",
	  .usage = "[options] [DIR]",
	  .details =
		  "Runs each DIR/**/*_spec.lua with busted and the real rule engine,\n"
		  "in a process of their own:\n"
		  "\n"
		  "  local tidemq = require \"tidemq\"\n"
		  "  local engine = assert(tidemq.open())\n"
		  "  local retry = assert(engine:strategy(\"retry\", \"exponential\",\n"
		  "    { base = \"1s\" }))\n"
		  "  assert.equal(2000, retry:decide({}, { failures = 2 }))\n"
		  "\n"
		  "engine:set_now(ms) and engine:seed(n) fix tide.now and tide.random.\n"
		  "Specs run with your rights; only `require \"socket\"` and os.exit are\n"
		  "refused. Links are followed to files in DIR alone\n"
		  "without --follow-links.\n"
		  "docs/rules-testing.md describes all functions; `tidemq rules new`\n"
		  "writes a spec to start from.\n"
		  "\n"
		  "Exit status: 0 all passed, 1 some failed or could not be run, 2 wrong\n"
		  "usage.",
	  .examples = "  tidemq test ./rules\n"
		      "  tidemq test --filter doubles --timeout 5s ./rules\n",
	  .options = test_options,
	  .words_max = 1,
	  .is_local = true,
	  .run = run_test },
	{ .name = "check-store",
	  .summary = "look for damage in a store, and repair it",
	  .usage = "[options]",
	  .details =
		  "Walks all keys of the store and prints a line for each finding: the\n"
		  "key, the id, what is wrong, what --repair would do. docs/redis.md says\n"
		  "what must be true.\n"
		  "\n"
		  "A broker may run, and is not disturbed. --repair takes the store as a\n"
		  "broker does: it is refused while one runs, and none starts meanwhile.\n"
		  "\n"
		  "Ctrl-C ends the walk and prints where to resume it. Status 0: nothing\n"
		  "is wrong any more.",
	  .examples = "  tidemq check-store --data ./data\n"
		      "  tidemq check-store --data ./data --repair\n",
	  .options = store_options,
	  .words_max = 0,
	  .is_local = true,
	  .run = run_check_store },
	{ .name = NULL },
};

/* clang-format on */

/* A script to start from, and its spec. */
struct skeleton {
	const char *kind, *name;
	const char *rules_dir; /* which gets kind/name.lua and kind/name_spec.lua */
	const char *lua_dir;
};

#define MARK "@NAME@"

static int refuse_kind(const char *kind, struct error *err)
{
	struct buf names = { 0 };

	for (unsigned i = 0; i < script_kind_count; i++)
		buf_printf(&names, " %s", script_kind_name((enum script_kind)i));
	error_set(err, TIDE_ENOTFOUND, "there is no kind '%s' of scripts; there are:%s",
		  kind, buf_cstr(&names));
	buf_deinit(&names);
	return TIDE_ENOTFOUND;
}

static int check_name(const struct skeleton *s, struct error *err)
{
	unsigned kind = 0;

	while (kind < script_kind_count &&
	       strcmp(script_kind_name((enum script_kind)kind), s->kind) != 0)
		kind++;
	if (kind == script_kind_count)
		return refuse_kind(s->kind, err);
	if (!script_kind_is_name((enum script_kind)kind, slice_from(s->name)) ||
	    slice_has_suffix(slice_from(s->name), "_spec"))
		return error_set(err, TIDE_ESYNTAX,
				 "'%.64s' cannot be the name of a script: a letter%s, "
				 "then letters, digits, '_' and '-', at most %d in all, "
				 "without '_spec' at the end",
				 s->name,
				 script_kind_is_ordered((enum script_kind)kind)
					 ? " or a digit"
					 : "",
				 SCRIPT_NAME_MAX);
	return TIDE_OK;
}

/* The text with the name in it. */
static void fill_in(const struct source *text, const char *name, struct buf *out)
{
	struct slice rest = { text->data, text->len };
	const char *mark;

	while ((mark = memmem(rest.data, rest.len, MARK, strlen(MARK))) != NULL) {
		size_t before = (size_t)(mark - rest.data);

		buf_append(out, rest.data, before);
		buf_append_text(out, name);
		rest = slice_skip(rest, before + strlen(MARK));
	}
	buf_append_slice(out, rest);
}

static int create_file(const char *path, const struct buf *text, struct error *err)
{
	FILE *out = fopen(path, "wx");

	if (!out && errno == EEXIST)
		return error_set(err, TIDE_EEXISTS, "'%s' is there already", path);
	bool is_written = out && fwrite(buf_slice(text).data, 1, buf_len(text), out) ==
					 buf_len(text);
	if (out && fclose(out) != 0)
		is_written = false;
	return is_written ? TIDE_OK
			  : error_set(err, TIDE_ERULE, "cannot write '%s': %s", path,
				      strerror(errno));
}

/* @param end  "" or "_spec"; `path` receives the file's */
static int write_one(const struct skeleton *s, const char *end, char path[PATH_MAX],
		     struct error *err)
{
	char from[PATH_MAX];
	struct source text;
	struct buf filled = { 0 };

	if (snprintf(from, PATH_MAX, "%s/new/%s%s.lua", s->lua_dir, s->kind, end) >=
		    PATH_MAX ||
	    snprintf(path, PATH_MAX, "%s/%s/%s%s.lua", s->rules_dir, s->kind, s->name,
		     end) >= PATH_MAX)
		return error_set(err, TIDE_ERULE, "the path is too long");
	int rc = source_read(&text, from, from, err);
	if (rc != TIDE_OK)
		return rc;
	fill_in(&text, s->name, &filled);
	rc = create_file(path, &filled, err);
	buf_deinit(&filled);
	source_free(&text);
	return rc;
}

static int write_skeleton(const struct skeleton *s, struct error *err)
{
	char folder[PATH_MAX], script[PATH_MAX], spec[PATH_MAX];
	int rc = check_name(s, err);

	if (rc != TIDE_OK)
		return rc;
	snprintf(folder, sizeof(folder), "%s/%s", s->rules_dir, s->kind);
	if (mkdir(folder, 0777) != 0 && errno != EEXIST)
		return error_set(err, TIDE_ERULE, "cannot create '%s': %s", folder,
				 strerror(errno));
	/* The spec first: a broker that watches loads the script. */
	rc = write_one(s, "_spec", spec, err);
	if (rc != TIDE_OK)
		return rc;
	rc = write_one(s, "", script, err);
	if (rc != TIDE_OK)
		unlink(spec);
	return rc;
}

static int run_new(struct cli *cli)
{
	const struct skeleton s = { .kind = cli->words[0],
				    .name = cli->words[1],
				    .rules_dir = cli_get(cli, "rules"),
				    .lua_dir = share_lua_dir() };
	struct error err;
	int rc;

	if (!share_is_dir(s.rules_dir))
		return refuse_dir(s.rules_dir);
	rc = write_skeleton(&s, &err);
	if (rc == TIDE_ESYNTAX || rc == TIDE_ENOTFOUND)
		return cli_usage_error(cli, "%s", err.text);
	if (rc != TIDE_OK)
		return cli_failure("%s", err.text);
	printf("%s/%s/%s.lua\n%s/%s/%s_spec.lua\n", s.rules_dir, s.kind, s.name,
	       s.rules_dir, s.kind, s.name);
	return CLI_DONE;
}

static const struct option_row new_options[] = {
	{ COMMAND_TEXT("rules", "DIR", RULES_DIR_DEFAULT, "the rules directory") },
	{ .name = NULL },
};

static int run_repl(struct cli *cli)
{
	const char *dir = cli_get(cli, "rules");

	return share_is_dir(dir) ? spec_prompt(dir, share_lua_dir()) : refuse_dir(dir);
}

/* clang-format off */
static const struct cli_verb rules_verbs[] = {
	{ .name = "rules new",
	  .summary = "write a script to start from, with its spec",
	  .usage = "[options] KIND NAME",
	  .details = "Writes KIND/NAME.lua and KIND/NAME_spec.lua into the rules\n"
		     "directory. KIND is routing, sharding, priority, retry, filter,\n"
		     "schedule, auth, deliver, settled, declare or connect. The script\n"
		     "does something small, and concerns nothing but what has its own\n"
		     "name; the spec passes. Nothing is overwritten.",
	  .examples = "  tidemq rules new filter 30-vat\n"
		      "  tidemq test --filter 30-vat ./rules\n",
	  .options = new_options,
	  .words_min = 2,
	  .words_max = 2,
	  .is_local = true,
	  .run = run_new },
	{ .name = "rules repl",
	  .summary = "a prompt to try rules at, without a broker",
	  .usage = "[options]",
	  .details =
		  "Loads the rules directory into an engine of its own, and runs each\n"
		  "line as a script would run: `tide`, the sandbox, the budgets. What is\n"
		  "tried changes nothing outside of it.\n"
		  "\n"
		  "  > tide.duration \"5m\"\n"
		  "  300000\n"
		  "  > :filter { exchange = \"orders\", key = \"new\" }\n"
		  "  nil, \"filter/20-orders.lua: no amount\", \"rejected\"\n"
		  "  > :strategy(\"retry\", \"fixed\"):decide({}, { failures = 1 })\n"
		  "  10000\n"
		  "\n"
		  "A line that begins with ':' is a method of the engine, as in a spec\n"
		  "(docs/rules-testing.md); :help lists the others. `rlwrap` adds a\n"
		  "history. `tidemq rules eval` asks the rules of a broker.",
	  .examples = "  tidemq rules repl --rules ./rules.next\n",
	  .options = new_options,
	  .words_max = 0,
	  .is_local = true,
	  .run = run_repl },
	{ .name = NULL },
};

/* clang-format on */

const struct cli_verb *offline_rules_verb(const char *word)
{
	for (const struct cli_verb *v = rules_verbs; v->name; v++)
		if (strcmp(v->name + strlen("rules "), word) == 0)
			return v;
	return NULL;
}
