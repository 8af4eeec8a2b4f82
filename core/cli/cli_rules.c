/* cli_rules.c: rules, and its words. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli_push.h"
#include "cli_table.h"

#define NAMES_WIDTH_MAX 40 /* of a kind of change; beyond it the files are counted */

/* What is asked with a word, and how the answer is shown. */
struct word {
	const char *name;
	int words_max; /* after it */
	int words_min;
	const struct cli_table_view *view;
	void (*add)(struct cli *cli); /* what follows; NULL: its words */
	int (*print_take)(struct cli *cli, json_t *document); /* NULL: by `view` */
	int (*run)(struct cli *cli); /* in the place of all this; may be NULL */
};

/* The absolute path: the current directory of the broker may be another. */
static void add_dir(struct cli *cli)
{
	char path[PATH_MAX];

	if (realpath(cli->words[1], path))
		cli_add_word(cli, path);
	else
		cli->status = cli_failure("cannot find the directory '%s': %s",
					  cli->words[1], strerror(errno));
}

static void add_shadow(struct cli *cli)
{
	const char *share = cli_get(cli, "share"), *word = cli->words[1];

	if (strcmp(word, "status") == 0 || strcmp(word, "promote") == 0 ||
	    strcmp(word, "drop") == 0) {
		cli_add_word(cli, word);
		return;
	}
	add_dir(cli);
	if (share)
		cli_add_value(cli, SLICE("share"), share);
}

static bool is_simulated_declare(const struct cli *cli)
{
	return strcmp(cli->words[1], "declare") == 0;
}

static bool is_simulated_retry(const struct cli *cli)
{
	return strcmp(cli->words[1], "login") != 0 &&
	       strcmp(cli->words[1], "access") != 0 && !is_simulated_declare(cli);
}

static void add_simulate(struct cli *cli)
{
	if (!is_simulated_retry(cli)) {
		cli_add_word(cli, cli->words[1]);
		for (int i = 2; i < cli->word_count; i++)
			cli_add_option(cli, cli->words[i]);
		return;
	}
	if (strcmp(cli->words[1], "retry") != 0 || cli->word_count < 3) {
		cli->status = cli_usage_error(
			cli, "usage: tidemq rules simulate retry NAME [OPTION=VALUE]... "
			     "| login|access|declare OPTION=VALUE...");
		return;
	}
	cli_add_word(cli, "retry");
	cli_add_word(cli, cli->words[2]);
	buf_printf(&cli->request, " failures=%" PRIu64 " reason=%s",
		   cli_number(cli, "failures"), cli_get(cli, "reason"));
	for (int i = 3; i < cli->word_count; i++)
		cli_add_option(cli, cli->words[i]);
}

static const struct cli_table_view status_view = {
	.units = "loaded_ms:time ms:time",
	.arrays = {
		{ "scripts", "file uses calls cache_hits? errors rejected? overruns? "
			     "skipped? time_us? p50_ns? p99_ns? max_ns? circuit "
			     "circuit_since_ms:time? last_error?" },
		{ "schedules", "name file when vhost missed jitter_ms:duration active "
			       "next_ms:time? last_ms:time? result? running? runs? "
			       "failures? skipped? messages?" },
		{ "unusable", "kind vhost name reason" },
		{ "metrics", "name labels type value count sum file" },
	},
};

static json_int_t integer_of(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

/* Remove the shipped scripts that nothing uses: a table of what goes on needs none of
 * them. How many there were. */
static json_int_t leave_out_unused(json_t *scripts)
{
	static const char shipped[] = "shipped/";
	json_int_t count = 0;

	for (size_t i = json_array_size(scripts); i-- > 0;) {
		const json_t *script = json_array_get(scripts, i);
		struct slice file = slice_from(cli_table_text(script, "file", ""));

		if (slice_has_prefix(file, shipped) && integer_of(script, "uses") == 0 &&
		    integer_of(script, "calls") == 0) {
			json_array_remove(scripts, i);
			count++;
		}
	}
	return count;
}

static int print_status_take(struct cli *cli, json_t *document)
{
	json_int_t count = leave_out_unused(json_object_get(document, "scripts"));

	json_object_set_new(document, "shipped_unused", json_integer(count));
	return cli_table_print_take(document, &status_view);
}

/* A sentence, and what the new generation cannot use. */
static int print_active_take(json_t *document, const char *more)
{
	static const struct cli_table_view view = { .columns = "kind vhost name reason" };
	json_t *unusable = json_incref(json_object_get(document, "unusable"));

	printf("generation %" JSON_INTEGER_FORMAT " is active, hash %s%s\n",
	       integer_of(document, "generation"), cli_table_text(document, "hash", ""),
	       more);
	json_decref(document);
	if (json_array_size(unusable) > 0) {
		printf("\nwhat cannot be used\n");
		return cli_table_print_take(unusable, &view);
	}
	json_decref(unusable);
	return CLI_DONE;
}

static int print_reload_take(struct cli *cli, json_t *document)
{
	(void)cli;
	return print_active_take(document, "");
}

/* What a rollback or a promotion activates is not what the directory has. */
static int print_switch_take(struct cli *cli, json_t *document)
{
	(void)cli;
	return print_active_take(document,
				 "; the rules directory stays as it is, and its next "
				 "change, a reload or a restart loads it again");
}

/* The candidate rules, then a table of the decisions that differ. */
static int print_changes_take(json_t *document, const struct cli_table_view *view,
			      const char *columns)
{
	const struct cli_table_view table = { .columns = columns };
	json_t *changes = json_incref(json_object_get(document, view->without));
	int status = cli_table_print_take(document, view);

	if (status != CLI_DONE || json_array_size(changes) == 0) {
		json_decref(changes);
		return status;
	}
	putchar('\n');
	return cli_table_print_take(changes, &table);
}

static int print_shadow_take(struct cli *cli, json_t *document)
{
	/* The samples of the document are publishes. */
	static const struct cli_table_view view = {
		.units = "started_ms:time delay_ms:duration",
		.without = "samples",
		.arrays = { { "samples", CLI_PUSH_COLUMNS } },
	};
	static const char *const hooks[] = { "deliver", "settled", "declare", "connect" };

	if (strcmp(cli->words[1], "promote") == 0)
		return print_switch_take(cli, document);
	for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++)
		if (integer_of(json_object_get(document, hooks[i]), "seen") == 0)
			json_object_del(document, hooks[i]);
	return print_changes_take(document, &view,
				  "differs exchange key headers live:decision "
				  "shadow:decision changes");
}

static int print_replay_take(struct cli *cli, json_t *document)
{
	static const struct cli_table_view view = { .without = "changes" };

	return print_changes_take(document, &view,
				  "number differs exchange key headers before:decision "
				  "after:decision");
}

/* "+a.lua, +b.lua", or "+27 files" */
static void append_changes(struct buf *out, const json_t *entry, const char *kind,
			   const char *sign)
{
	const json_t *names = json_object_get(entry, kind), *name, *given;
	size_t count = json_array_size(names), i;
	struct buf member = { 0 }, list = { 0 };

	buf_printf(&member, "%s_count", kind);
	given = json_object_get(entry, buf_cstr(&member));
	if (given)
		count = (size_t)json_integer_value(given);
	json_array_foreach(names, i, name)
		buf_printf(&list, "%s%s%s", i ? ", " : "", sign, json_string_value(name));
	if (buf_len(&list) > NAMES_WIDTH_MAX || count > json_array_size(names)) {
		buf_clear(&list);
		buf_printf(&list, "%s%zu file%s", sign, count, count == 1 ? "" : "s");
	}
	if (count > 0)
		buf_printf(out, "%s%s", buf_len(out) ? ", " : "", buf_cstr(&list));
	buf_deinit(&member);
	buf_deinit(&list);
}

static int print_log_take(struct cli *cli, json_t *log)
{
	static const struct cli_table_view view = {
		.columns = "number loaded_ms:time origin result hash changes by error"
	};
	size_t i;
	json_t *entry;

	json_array_foreach(log, i, entry)
	{
		struct buf changes = { 0 };

		append_changes(&changes, entry, "added", "+");
		append_changes(&changes, entry, "changed", "");
		append_changes(&changes, entry, "removed", "-");
		json_object_set_new(entry, "changes", json_string(buf_cstr(&changes)));
		buf_deinit(&changes);
		/* They have changed: that is what their origin says. */
		if (strcmp(cli_table_text(entry, "origin", ""), "files") == 0)
			json_object_del(entry, "by");
	}
	return cli_table_print_take(log, &view);
}

/* Why the last row of the table is the last. */
static const char *explain_end(const json_t *document)
{
	const json_t *attempts = json_object_get(document, "attempts");
	size_t count = json_array_size(attempts);
	const char *end = cli_table_text(document, "end", "");

	if (count && strcmp(cli_table_text(json_array_get(attempts, count - 1), "by", ""),
			    "delivery-limit") == 0)
		return "The queue's delivery-limit ends it, not the script.";
	if (strcmp(end, "error") == 0)
		return "The script failed; a queue would keep the message and try it "
		       "again after 5s.";
	if (strcmp(end, "failures") == 0)
		return "It would go on; see --failures.";
	return strcmp(end, "time") == 0 ? "It would go on for a very long time." : NULL;
}

static void print_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_COMPACT);
	putchar('\n');
}

/* "ttl=7d (was 30d), -rate" */
static void describe_changes(const json_t *changes, struct buf *out)
{
	size_t i;
	json_t *change;

	json_array_foreach(changes, i, change)
	{
		const char *from = cli_table_text(change, "from", NULL);
		const char *to = cli_table_text(change, "to", NULL);

		buf_printf(out, "%s%s=%s", i ? ", " : "",
			   cli_table_text(change, "option", ""), to ? to : "(default)");
		if (from)
			buf_printf(out, " (was %s)", from);
	}
	if (json_array_size(changes) == 0)
		buf_append_text(out, "nothing");
}

/* A policy's step as a row: where it decided, and what it sets. */
static void make_policy_row(json_t *step)
{
	const char *file = cli_table_text(step, "script", "");
	const char *why = cli_table_text(step, "rejected", NULL);
	struct buf sets = { 0 };

	json_object_set_new(step, "decided",
			    json_sprintf("%s:%lld", cli_table_text(step, "model", file),
					 (long long)integer_of(step, "line")));
	if (why)
		buf_printf(&sets, "refuses: %s", why);
	else
		describe_changes(json_object_get(step, "changes"), &sets);
	json_object_set_new(step, "sets", json_string(buf_cstr(&sets)));
	buf_deinit(&sets);
}

/* What DECLARE would fail with is the command's failure. */
static int end_declaration_take(char *rejected_take, char *error_take)
{
	int status = CLI_DONE;

	if (rejected_take)
		status = cli_failure("rejected: %s", rejected_take);
	else if (error_take)
		status = cli_failure("%s", error_take);
	mem_free(rejected_take);
	mem_free(error_take);
	return status;
}

static char *take_text(json_t *document, const char *name)
{
	const char *text = cli_table_text(document, name, NULL);

	return text ? mem_strdup(text) : NULL;
}

static int simulate_declare(struct cli *cli)
{
	static const struct cli_table_view view = {
		.arrays = { { "policies", "script decided sets" } },
	};
	struct tidemq_reply reply;
	char *rejected, *error;
	json_t *document, *step;
	size_t i;

	buf_append_text(&cli->request, "RULES simulate");
	add_simulate(cli);
	if (cli_ask(cli, &reply) != CLI_DONE)
		return cli->status;
	document = cli_table_parse(cli, &reply);
	if (!document)
		return cli->status;
	rejected = take_text(document, "rejected");
	error = take_text(document, "error");
	if (cli->json) {
		print_json(document);
		json_decref(document);
	} else {
		json_object_del(document, "rejected");
		json_object_del(document, "error");
		json_array_foreach(json_object_get(document, "policies"), i, step)
			make_policy_row(step);
		cli->status = cli_table_print_take(document, &view);
	}
	int status = end_declaration_take(rejected, error);
	return cli->status == CLI_DONE ? status : cli->status;
}

static void append_address(struct buf *out, const json_t *address)
{
	buf_printf(out, "%s%s %s", buf_len(out) ? ", " : "",
		   cli_table_text(address, "exchange", "-"),
		   cli_table_text(address, "key", ""));
}

/* Exchange and key of the target and of the copies, as one writes them. */
static void name_addresses(json_t *attempt)
{
	const json_t *target = json_object_get(attempt, "target"), *copy;
	struct buf to = { 0 }, copies = { 0 };
	size_t i;

	if (target)
		append_address(&to, target);
	json_array_foreach(json_object_get(attempt, "copies"), i, copy)
		append_address(&copies, copy);
	json_object_set_new(attempt, "to", json_string(buf_cstr(&to)));
	json_object_set_new(attempt, "copies", json_string(buf_cstr(&copies)));
	buf_deinit(&to);
	buf_deinit(&copies);
}

static int print_simulation_take(struct cli *cli, json_t *document)
{
	static const struct cli_table_view view = {
		.columns = "attempt at_ms:duration delay_ms:duration happens to? copies? "
			   "headers? error?",
		.array = "attempts",
	};
	static const struct cli_table_view decision_view = { .units = "" };
	const char *end;
	int status;
	size_t i;
	json_t *attempt;

	if (!is_simulated_retry(cli))
		return cli_table_print_take(document, &decision_view);
	end = explain_end(document);
	json_array_foreach(json_object_get(document, "attempts"), i, attempt)
		name_addresses(attempt);
	status = cli_table_print_take(document, &view);

	if (status == CLI_DONE && end)
		puts(end);
	return status;
}

static const struct cli_table_view recent_view = {
	.columns = "number published_ms:time exchange key priority? size headers "
		   "decision:decision"
};

/* The document of RULES status, which has an array of scripts; or NULL. */
static json_t *ask_status(struct cli *cli, json_t **scripts)
{
	struct tidemq_reply reply;
	json_t *status;

	buf_append_text(&cli->request, "RULES status");
	if (cli_ask(cli, &reply) != CLI_DONE)
		return NULL;
	status = cli_table_parse(cli, &reply);
	*scripts = json_object_get(status, "scripts");
	return status;
}

static int by_time(const void *a, const void *b)
{
	json_int_t x = integer_of(*(json_t *const *)a, "time_us");
	json_int_t y = integer_of(*(json_t *const *)b, "time_us");

	return x < y ? 1 : x > y ? -1 : 0;
}

/* @param figures  of the script: itself, or a member of it */
static json_t *make_row_new(json_t *script, const json_t *figures)
{
	static const char *const copied[] = { "calls",    "cache_hits", "errors",
					      "overruns", "skipped",    "time_us" };
	json_t *row = json_pack("{s:O?,s:f,s:f,s:f,s:O?}", "script",
				json_object_get(script, "file"), "p50_us",
				(double)integer_of(figures, "p50_ns") / 1000, "p99_us",
				(double)integer_of(figures, "p99_ns") / 1000, "max_us",
				(double)integer_of(figures, "max_ns") / 1000, "circuit",
				json_object_get(script, "circuit"));

	json_object_set(row, "memory_bytes", json_object_get(script, "memory_bytes"));
	for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++)
		json_object_set(row, copied[i], json_object_get(figures, copied[i]));
	return row;
}

/* @param member  of each script, that has the figures; NULL: the script itself */
static json_t *make_rows(const json_t *scripts, const char *member)
{
	size_t count = json_array_size(scripts);
	json_t **sorted = mem_alloc((count + 1) * sizeof(*sorted)), *rows = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *script = json_array_get(scripts, i);

		sorted[i] = make_row_new(script, member ? json_object_get(script, member)
							: script);
	}
	qsort(sorted, count, sizeof(*sorted), by_time);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(rows, sorted[i]);
	mem_free(sorted);
	return rows;
}

static int run_top(struct cli *cli)
{
	static const struct cli_table_view view = {
		.columns = "script calls cache_hits? errors overruns? skipped? p50_us "
			   "p99_us max_us time_us memory_bytes circuit"
	};
	const char *member = NULL;
	json_t *scripts, *rows, *document = ask_status(cli, &scripts);

	if (!document)
		return cli->status;
	if (cli_is_given(cli, "this-generation"))
		member = "this_generation";
	if (cli_is_given(cli, "last-minute"))
		member = "last_minute";
	leave_out_unused(scripts);
	rows = make_rows(scripts, member);
	json_decref(document);
	if (!cli->json)
		return cli_table_print_take(rows, &view);
	print_json(rows);
	json_decref(rows);
	return CLI_DONE;
}

static void append_number(struct buf *out, const char *word, const json_t *value)
{
	if (value)
		buf_printf(out, "%s%s %.15g", buf_len(out) ? ", " : "", word,
			   json_number_value(value));
}

/* What the option may be besides its type, in words. */
static void add_allowed(json_t *option)
{
	struct buf out = { 0 };
	size_t i;
	json_t *choice;

	if (json_is_true(json_object_get(option, "required")))
		buf_append_text(&out, "required");
	append_number(&out, "from", json_object_get(option, "min"));
	append_number(&out, "to", json_object_get(option, "max"));
	json_array_foreach(json_object_get(option, "choices"), i, choice)
	{
		const char *comma = buf_len(&out) ? ", " : "";

		buf_printf(&out, "%s%s", i == 0 ? comma : " or ",
			   json_string_value(choice));
	}
	if (buf_len(&out) > 0)
		json_object_set_new(option, "allowed", json_string(buf_cstr(&out)));
	buf_deinit(&out);
}

static int print_options(json_t *options, const char *title)
{
	static const struct cli_table_view view = {
		.columns = "name type default allowed doc"
	};
	size_t i;
	json_t *option;

	if (json_array_size(options) == 0)
		return CLI_DONE;
	json_array_foreach(options, i, option) add_allowed(option);
	printf("\n%s\n", title);
	return cli_table_print_take(json_incref(options), &view);
}

/* The lines of errors are easy to find in it. */
static void print_source(const char *text)
{
	unsigned line = 1;

	if (!text)
		return;
	printf("\nsource\n");
	while (*text) {
		size_t len = strcspn(text, "\n");

		printf("%5u  %.*s\n", line++, (int)len, text);
		text += len + (text[len] == '\n');
	}
}

static void print_traceback(const json_t *lines)
{
	size_t i;
	const json_t *line;

	if (json_array_size(lines) > 0)
		printf("\nstack of the last error\n");
	json_array_foreach(lines, i, line) printf("  %s\n", json_string_value(line));
}

static int print_script(json_t *script)
{
	static const struct cli_table_view view = {
		.units = "circuit_since_ms:time last_error_ms:time",
	};
	static const char *const apart[] = { "options", "binding_options", "histogram",
					     "traceback", "source" };
	json_t *head = json_copy(script);
	int status;

	for (size_t i = 0; i < sizeof(apart) / sizeof(apart[0]); i++)
		json_object_del(head, apart[i]);
	status = cli_table_print_take(head, &view);
	if (status == CLI_DONE)
		status = print_options(json_object_get(script, "options"), "options");
	if (status == CLI_DONE)
		status = print_options(json_object_get(script, "binding_options"),
				       "options of BIND");
	print_traceback(json_object_get(script, "traceback"));
	print_source(json_string_value(json_object_get(script, "source")));
	return status;
}

static void add_show(struct cli *cli)
{
	cli_add_word(cli, cli->words[1]);
	if (cli_is_given(cli, "source"))
		cli_add_word(cli, "source");
}

static void add_code(struct cli *cli)
{
	cli_add_value(cli, SLICE("code"), cli->words[1]);
}

static int print_values_take(struct cli *cli, json_t *document)
{
	puts(cli_table_text(document, "values", ""));
	json_decref(document);
	return CLI_DONE;
}

static int print_scripts_take(struct cli *cli, json_t *scripts)
{
	int status = CLI_DONE;
	size_t i;
	json_t *script;

	json_array_foreach(scripts, i, script)
	{
		if (i > 0)
			putchar('\n');
		if (status == CLI_DONE)
			status = print_script(script);
	}
	json_decref(scripts);
	return status;
}

static const struct word words[] = {
	{ "reload", .print_take = print_reload_take },
	{ "status", .print_take = print_status_take },
	{ "log", .print_take = print_log_take },
	{ "rollback", 1, .print_take = print_switch_take },
	{ "top", .run = run_top },
	{ "show", 1, 1, .add = add_show, .print_take = print_scripts_take },
	{ "eval", 1, 1, .add = add_code, .print_take = print_values_take },
	{ "simulate", 79, 1, .add = add_simulate, .print_take = print_simulation_take },
	{ "shadow", 1, 1, .add = add_shadow, .print_take = print_shadow_take },
	{ "recent", 1, .view = &recent_view },
	{ "replay", 1, 1, .add = add_dir, .print_take = print_replay_take },
	{ "push", 1, 1, .run = cli_push_run },
};
#define WORD_COUNT (sizeof(words) / sizeof(words[0]))

static int ask(struct cli *cli, const struct word *w)
{
	int more = cli->word_count - 1;
	json_t *document;

	if (more < w->words_min || more > w->words_max)
		return cli_count_error(cli, w->name, w->words_min, w->words_max, more);
	if (w->run)
		return w->run(cli);
	if (w->add == add_simulate && is_simulated_declare(cli))
		return simulate_declare(cli);
	buf_printf(&cli->request, "RULES %s", w->name);
	if (w->add)
		w->add(cli);
	else if (more > 0)
		cli_add_word(cli, cli->words[1]);
	document = cli_table_ask_document(cli);
	if (!document)
		return cli->status;
	return w->view ? cli_table_print_take(document, w->view)
		       : w->print_take(cli, document);
}

static int run_rules(struct cli *cli)
{
	struct buf names = { 0 };

	for (size_t i = 0; i < WORD_COUNT; i++)
		if (strcmp(cli->words[0], words[i].name) == 0)
			return ask(cli, &words[i]);
	for (size_t i = 0; i < WORD_COUNT; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", words[i].name);
	cli_usage_error(cli, "there is no verb 'rules %s'; expected one of %s, new, repl",
			cli->words[0], buf_cstr(&names));
	buf_deinit(&names);
	return CLI_USAGE;
}

static const struct option_row rules_options[] = {
	{ COMMAND_NUMBER("failures", "100", "simulate: end after this many, 1-1000", 1,
			 1000) },
	{ COMMAND_CHOICE("reason", "nack|timeout|gone", "nack",
			 "simulate: why it fails") },
	{ COMMAND_FLAG("this-generation",
		       "top: since the active rules were loaded, not since the start") },
	{ COMMAND_FLAG("source",
		       "show: the script's text too, with its lines numbered") },
	{ COMMAND_FLAG("last-minute", "top: of the last minute") },
	{ COMMAND_TEXT("share", "PERCENT", NULL,
		       "share of the publishes: 10% with shadow DIR, 100% with push") },
	{ COMMAND_DURATION("for", NULL, "push: try the rules for so long, 1m by default",
			   1, 7 * 24 * 3600 * 1000) },
	{ COMMAND_NUMBER("messages", NULL, "push: until so many publishes are compared",
			 1, UINT32_MAX) },
	{ COMMAND_TEXT("allow", "LIST", NULL,
		       "push: what may differ: " CLI_PUSH_ALLOWED) },
	{ COMMAND_FLAG("now", "push: make them active without a trial on traffic") },
	{ COMMAND_FLAG("yes", "push: do not ask when no publish was compared") },
	{ COMMAND_FLAG("no-test", "push: without tidemq check and test") },
	{ COMMAND_FLAG("transient",
		       "push: leave the broker's rules directory as it is") },
	{ .name = NULL },
};

const struct cli_verb cli_rules_verbs[] = {
	{ .name = "rules",
	  .summary = "show and change the active rules",
	  .usage = "[options] reload | status | top | show NAME | log | rollback [HASH] "
		   "|\n"
		   "       shadow DIR|status|promote|drop | recent [N] | replay DIR |\n"
		   "       push DIR |\n"
		   "       simulate retry NAME [OPTION=VALUE]... |\n"
		   "       simulate login|access|declare OPTION=VALUE... |\n"
		   "       eval LUA | new KIND NAME | repl",
	  .details =
		  "reload     load the rules directory\n"
		  "status     the active rules and the figures of their scripts\n"
		  "top        what the scripts cost, the most expensive first\n"
		  "show       a script: its options, its figures, its last error\n"
		  "log        the last attempts to load rules, newest first\n"
		  "rollback   reinstate the previous generation, or the one with that\n"
		  "           hash; the rules directory stays as it is, and its next\n"
		  "           change replaces this generation\n"
		  "shadow     try candidate rules from DIR beside the active rules, and\n"
		  "           show where they differ; promote makes them active, drop\n"
		  "           discards them\n"
		  "recent     the last publishes, and what was decided\n"
		  "replay     decide them again under the rules in DIR, and show what\n"
		  "           changes\n"
		  "push       check and test DIR here, send it to the broker, try it on\n"
		  "           live traffic, and make it active if nothing differs that\n"
		  "           --allow does not list; else drop it and show what "
		  "differs\n"
		  "simulate   show what happens to a message that fails each time: when\n"
		  "           it is attempted, what the script decides, and how it "
		  "ends.\n"
		  "           The OPTIONs are those of the script, with or without\n"
		  "           \"retry.\" before them, and delivery-limit and "
		  "ack-timeout\n"
		  "           as a queue has them.\n"
		  "           Or show who decides about a login or a permission, and "
		  "why;\n"
		  "           or what policies make of a declaration.\n"
		  "eval       the values of a line of Lua in the active rules, as a dry\n"
		  "           run: nothing of it remains\n"
		  "new        write a script with its spec: tidemq help rules new\n"
		  "repl       a prompt to try rules at: tidemq help rules repl",
	  .examples = "  tidemq rules status\n"
		      "  tidemq rules show filter/20-orders --source\n"
		      "  tidemq rules shadow ./rules.next --share 10%\n"
		      "  tidemq rules push ./rules --for 5m --allow rank\n"
		      "  tidemq rules rollback\n"
		      "  tidemq rules eval 'tide.queue(\"jobs\").ready'\n"
		      "  tidemq rules simulate retry exponential base=500ms cap=1m "
		      "delivery-limit=0\n"
		      "  tidemq rules simulate login user=bob vhost=shop\n"
		      "  tidemq rules simulate access user=bob action=write kind=queue "
		      "name=jobs\n"
		      "  tidemq rules simulate declare kind=queue name=jobs ttl=1d\n",
	  .options = rules_options,
	  .words_min = 1,
	  .words_max = 80,
	  .run = run_rules },
	{ .name = NULL },
};
