#include "cli_operation.h"

#include <inttypes.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli_push.h"
#include "cli_url.h"
#include "figures/figure_rows.h"

#define NAMES_WIDTH_MAX 40 /* of a kind of change; beyond it the files are counted */
#define PASSWORD_MAX 1024

/* ---- definitions ---- */

/* "[<name>] [warning <text>]": the name that the broker chose for a queue, and why it may
 * not be what was meant. */
static int run_declare(struct cli *cli)
{
	struct tidemq_reply reply;
	struct slice rest, name = SLICE("");

	if (cli_ask(cli, &reply) != CLI_DONE)
		return cli->status;
	rest = slice_from(reply.text);
	if (rest.len > 0 && !slice_has_prefix(rest, "warning "))
		name = slice_cut(&rest, ' ');
	if (cli->json && name.len > 0)
		printf("{\"ok\":true,\"name\":\"%" SLICE_FMT "\"}\n", SLICE_ARG(name));
	else if (cli->json)
		puts("{\"ok\":true}");
	else if (name.len > 0)
		printf("%" SLICE_FMT "\n", SLICE_ARG(name));
	if (rest.len > 0)
		fprintf(stderr, "tidemq declare: warning: %" SLICE_FMT "\n",
			SLICE_ARG(slice_skip(rest, strlen("warning "))));
	return CLI_DONE;
}

/* The URL may be that of the vhost which is still to be made, or is no more. */
static void begin_vhost(struct cli *cli)
{
	char *url = cli_url_with(cli->url, "/");

	mem_free(cli->hidden_url);
	cli->url = cli->hidden_url = url;
}

static int run_vhost(struct cli *cli)
{
	cli->status = cli_connect(cli, NULL);
	if (cli->status == CLI_DONE &&
	    cli_ask_vhost(cli, buf_cstr(&cli->request)) != TIDEMQ_OK &&
	    cli->status == CLI_DONE)
		cli->status = cli_client_failure(cli);
	if (cli->status == CLI_DONE && cli->json)
		puts("{\"ok\":true}");
	return cli->status;
}

/* "<moved> <left>" */
static int run_redrive(struct cli *cli)
{
	struct tidemq_reply reply;
	unsigned long long moved, left;

	if (cli_ask(cli, &reply) != CLI_DONE)
		return cli->status;
	if (sscanf(reply.text, "%llu %llu", &moved, &left) != 2)
		return cli_failure("cannot read the broker's answer '%s'", reply.text);
	printf(cli->json ? "{\"ok\":true,\"moved\":%llu,\"left\":%llu}\n"
			 : "sent back %llu, left %llu\n",
	       moved, left);
	return CLI_DONE;
}

/* ---- lists and figures ---- */

/* Each row as an object with the columns as members. */
static json_t *rows_of_history(const json_t *document)
{
	const json_t *columns = json_object_get(document, "columns"), *row;
	json_t *rows = json_array(), *object, *value;
	size_t i, k;

	json_array_foreach(json_object_get(document, "rows"), i, row)
	{
		object = json_object();
		json_array_foreach(row, k, value)
		{
			const char *name = json_string_value(json_array_get(columns, k));

			if (name)
				json_object_set(object, name, value);
		}
		json_array_append_new(rows, object);
	}
	return rows;
}

static int print_history_take(struct cli *cli, json_t *document)
{
	const struct cli_table_view view = {
		.columns =
			"t:time/time published/in delivered/out in_10s/in out_10s/out "
			"acked+ "
			"messages lag lag_ms:duration/behind members ready unacked+ "
			"delayed+ buried+ oldest_ready_ms:duration/oldest connections+ "
			"memory_bytes/memory+ unstored_bytes/unstored+ store_ms+ "
			"loop_busy+",
		.is_wide = cli_is_given(cli, "wide"),
	};
	json_t *rows = rows_of_history(document);

	json_decref(document);
	return cli_table_print_take(rows, &view);
}

/* The partitions of each group, which are lists within a list, in one list. */
static void flatten_groups(json_t *document)
{
	json_t *groups = json_object_get(document, "groups"), *group, *partition;
	json_t *all = json_array();
	size_t i, k;

	json_array_foreach(groups, i, group)
	{
		json_array_foreach(json_object_get(group, "partitions"), k, partition)
		{
			json_object_set(partition, "group",
					json_object_get(group, "group"));
			json_array_append(all, partition);
		}
		json_object_del(group, "partitions");
	}
	if (groups)
		json_object_set(document, "per_group", all);
	json_decref(all);
}

/* The columns of the figures of a kind of things. */
#define COLUMN(read, name, shown, sort, script, metric, kind, column, ...) column
#define GROUP_COLUMNS "group " GROUP_FIGURES(COLUMN)

static int print_stats_take(struct cli *cli, json_t *document)
{
	static const struct cli_table_view view = {
		.units = "uptime_ms:duration oldest_ready_ms:duration "
			 "oldest_lease_ms:duration",
		.arrays = { { "per_partition",
			      "partition start end bytes last:time held_back held_by "
			      "held_since:time compacted?" },
			    { "groups", GROUP_COLUMNS "paused" },
			    { "per_group", "group partition connection channel? sid "
					   "committed end lag held? "
					   "returned? ahead? stopped?" },
			    { "metrics", "name labels type value count sum file" } },
	};

	(void)cli;
	flatten_groups(document);
	return cli_table_print_take(document, &view);
}

/* ---- passwords: of a terminal, typed twice and not shown; else a line of input */

/* Without its line end. */
static bool read_line(char text[PASSWORD_MAX + 2])
{
	size_t len;

	if (!fgets(text, PASSWORD_MAX + 2, stdin))
		return false;
	len = strcspn(text, "\r\n");
	/* A line that is too long has no end. */
	if (text[len] == '\0' && len > PASSWORD_MAX)
		return false;
	text[len] = '\0';
	return len > 0;
}

static bool type(const char *prompt, char text[PASSWORD_MAX + 2])
{
	struct termios shown, hidden;
	bool is_read;

	if (tcgetattr(STDIN_FILENO, &shown) < 0)
		return false;
	hidden = shown;
	hidden.c_lflag &= ~(tcflag_t)ECHO;
	/* Before it is asked for: what is typed earlier is not read. */
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
	fputs(prompt, stderr);
	is_read = read_line(text);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &shown);
	fputc('\n', stderr);
	return is_read;
}

static int read_password(struct cli *cli, char text[PASSWORD_MAX + 2])
{
	char again[PASSWORD_MAX + 2];
	bool is_same;

	if (!isatty(STDIN_FILENO))
		return read_line(text)
			       ? CLI_DONE
			       : cli_usage_error(
					 cli,
					 "a password of 1-%d bytes is expected on "
					 "standard input",
					 PASSWORD_MAX);
	if (!type("password: ", text) || !type("again: ", again))
		return cli_failure("that is no password");
	is_same = strcmp(text, again) == 0;
	explicit_bzero(again, sizeof(again));
	return is_same ? CLI_DONE : cli_failure("the two passwords differ");
}

static void begin_password(struct cli *cli)
{
	char text[PASSWORD_MAX + 2];

	if (cli_is_given(cli, "no-password"))
		return;
	cli->status = read_password(cli, text);
	if (cli->status == CLI_DONE)
		cli_add_value(cli, SLICE("pass"), text);
	explicit_bzero(text, sizeof(text));
}

/* ---- users ---- */

/* Success prints no text; a password leaves the memory. */
static int run_silent(struct cli *cli)
{
	struct tidemq_reply reply;

	cli_ask(cli, &reply);
	explicit_bzero(cli->request.data, cli->request.cap);
	if (cli->status == CLI_DONE && cli->json)
		puts("{\"ok\":true}");
	return cli->status;
}

static json_t *join_tags(const json_t *user)
{
	const json_t *tags = json_object_get(user, "tags");
	struct buf text = { 0 };
	json_t *joined;

	for (size_t i = 0; i < json_array_size(tags); i++) {
		buf_append_text(&text, i ? "," : "");
		buf_append_text(&text, json_string_value(json_array_get(tags, i)));
	}
	joined = json_string(buf_cstr(&text));
	buf_deinit(&text);
	return joined;
}

/* A row for each vhost that the user may enter, or one. */
static void add_rows(json_t *rows, const json_t *user)
{
	json_t *vhosts = json_object_get(user, "vhosts"), *grant, *row;
	const char *vhost;
	size_t first = json_array_size(rows);

	json_object_foreach(vhosts, vhost, grant)
	{
		row = json_copy(grant);
		json_object_set_new(row, "vhost", json_string(vhost));
		json_array_append_new(rows, row);
	}
	if (json_object_size(vhosts) == 0)
		json_array_append_new(rows, json_object());
	for (size_t i = first; i < json_array_size(rows); i++)
		json_object_set(json_array_get(rows, i), "name",
				json_object_get(user, "name"));
}

static int print_users_take(struct cli *cli, json_t *users)
{
	static const struct cli_table_view view = {
		.columns = "name tags connections vhost configure write read "
			   "max-connections? "
			   "max-channels? publish-rate? publish-bytes? unreadable?"
	};
	json_t *table = json_array();
	size_t first = 0;

	(void)cli;
	for (size_t i = 0; i < json_array_size(users); i++) {
		json_t *user = json_array_get(users, i), *row;

		add_rows(table, user);
		row = json_array_get(table, first);
		first = json_array_size(table);
		json_object_update(row, json_object_get(user, "limits"));
		json_object_set_new(row, "tags", join_tags(user));
		json_object_set(row, "connections", json_object_get(user, "connections"));
		if (json_object_get(user, "unreadable"))
			json_object_set(row, "unreadable",
					json_object_get(user, "unreadable"));
	}
	json_decref(users);
	return cli_table_print_take(table, &view);
}

/* ---- tide.shared ---- */

/* One answer after the other, up to so many entries.
 *
 * @param entries  those of all answers; NULL: they have none
 * @return         what was removed */
static json_int_t scan_shared(struct cli *cli, json_t *entries, size_t max)
{
	size_t request_len = buf_len(&cli->request);
	json_int_t cursor, removed = 0;
	struct tidemq_reply reply;

	do {
		json_t *document;

		if (cli_ask(cli, &reply) != CLI_DONE)
			return removed;
		document = cli_table_parse(cli, &reply);
		cursor = json_integer_value(json_object_get(document, "cursor"));
		removed += json_integer_value(json_object_get(document, "removed"));
		if (entries && document)
			json_array_extend(entries, json_object_get(document, "entries"));
		json_decref(document);
		cli->request.end = cli->request.start + request_len;
		buf_printf(&cli->request, " cursor=%" JSON_INTEGER_FORMAT, cursor);
	} while (cursor && cli->status == CLI_DONE &&
		 (!entries || json_array_size(entries) < max));
	return removed;
}

static int run_list_shared(struct cli *cli)
{
	static const struct cli_table_view view = {
		.columns = "key type value ttl_ms:duration bytes file vhost"
	};
	size_t max = (size_t)cli_number(cli, "max");
	json_t *entries = json_array();

	scan_shared(cli, entries, max);
	while (json_array_size(entries) > max)
		json_array_remove(entries, json_array_size(entries) - 1);
	if (cli->status == CLI_DONE && !cli->json)
		return cli_table_print_take(entries, &view);
	if (cli->status == CLI_DONE) {
		json_dumpf(entries, stdout, JSON_COMPACT);
		putchar('\n');
	}
	json_decref(entries);
	return cli->status;
}

static int run_clear_shared(struct cli *cli)
{
	json_int_t removed = scan_shared(cli, NULL, 0);

	if (cli->status == CLI_DONE)
		printf(cli->json ? "{\"removed\":%" JSON_INTEGER_FORMAT "}\n"
				 : "%" JSON_INTEGER_FORMAT " removed\n",
		       removed);
	return cli->status;
}

/* The value alone, as it is. */
static int print_value_take(struct cli *cli, json_t *document)
{
	const json_t *value = json_object_get(document, "value");

	(void)cli;
	if (json_is_string(value))
		fwrite(json_string_value(value), 1, json_string_length(value), stdout);
	else
		json_dumpf(value, stdout, JSON_ENCODE_ANY);
	putchar('\n');
	json_decref(document);
	return CLI_DONE;
}

/* ---- rules ---- */

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

/* The rules directory has other files than what a rollback or a promotion activates. */
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

	(void)cli;
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
		/* The origin says already that files have changed. */
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

/* A policy's step as a row: where it decided, and what it sets: "ttl=7d (was 30d)". */
static void make_policy_row(json_t *step)
{
	const json_t *changes = json_object_get(step, "changes");
	struct buf place = { 0 }, sets = { 0 };

	cli_table_fill(&place, "{model|script}:{line}", step);
	cli_table_fill(&sets, "[rejected?refuses: {rejected}]", step);
	if (buf_len(&sets) == 0)
		cli_table_join(&sets,
			       "{option}=[to?{to}][to!(default)][from? (was {from})]",
			       changes);
	json_object_set_new(step, "decided", json_string(buf_cstr(&place)));
	json_object_set_new(step, "sets",
			    json_string(buf_len(&sets) ? buf_cstr(&sets) : "nothing"));
	buf_deinit(&place);
	buf_deinit(&sets);
}

/* An error that DECLARE would end with is the command's failure. */
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

static int run_simulate_declare(struct cli *cli)
{
	static const struct cli_table_view view = {
		.arrays = { { "policies", "script decided sets" } },
	};
	struct tidemq_reply reply;
	char *rejected, *error;
	json_t *document, *step;
	size_t i;

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

/* Exchange and key of the target and of the copies, as one writes them. */
static void name_addresses(json_t *attempt)
{
	struct buf to = { 0 }, copies = { 0 };

	if (json_object_get(attempt, "target"))
		cli_table_fill(&to, "{exchange} {key}",
			       json_object_get(attempt, "target"));
	cli_table_join(&copies, "{exchange} {key}", json_object_get(attempt, "copies"));
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
	const char *end;
	int status;
	size_t i;
	json_t *attempt;

	(void)cli;
	end = explain_end(document);
	json_array_foreach(json_object_get(document, "attempts"), i, attempt)
		name_addresses(attempt);
	status = cli_table_print_take(document, &view);

	if (status == CLI_DONE && end)
		puts(end);
	return status;
}

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

static int run_rules_top(struct cli *cli)
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

/* The allowed values of the option besides its type, in words. */
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

static int print_values_take(struct cli *cli, json_t *document)
{
	(void)cli;
	puts(cli_table_text(document, "values", ""));
	json_decref(document);
	return CLI_DONE;
}

/* ---- the tables ---- */

#define LIST(operation_, columns_)                         \
	{                                                  \
		operation_, .view = {.columns = columns_ } \
	}
/* Each cell of a store that is split has its own. */
#define LIST_OF_CELLS(operation_, columns_)                                      \
	{                                                                        \
		operation_, .view = { .columns = columns_ }, .is_of_cells = true \
	}
#define STATS(operation_)                                  \
	{                                                  \
		operation_, .print_take = print_stats_take \
	}
#define SILENT(operation_)                    \
	{                                     \
		operation_, .run = run_silent \
	}

/* clang-format off */
static const struct cli_answer answers[] = {
	{ "putQueue", .run = run_declare },
	{ "putTopic", .run = run_declare },
	{ "putExchange", .run = run_declare },
	{ "declareVhost", .begin = begin_vhost, .run = run_vhost },
	{ "deleteVhost", .begin = begin_vhost, .run = run_vhost },
	{ "removeMessage", .done = "removed" },
	{ "rescheduleMessage", .done = "rescheduled" },
	{ "purgeQueue", .done = "purged" },
	{ "kick", .done = "kicked" },
	{ "redrive", .run = run_redrive },
	{ "findMessage", .view = { .units = "ts:time due:time expires:time deadline:time buried:time until:time" } },
	LIST("listExchanges", "name type durable+ auto_delete?+ " EXCHANGE_FIGURES(COLUMN) "options?+ policy?+ unusable?"),
	LIST("listQueues", "name " QUEUE_FIGURES(COLUMN) "durable+ paused options?+ policy?+ unusable?"),
	LIST("listTopics", "name " TOPIC_FIGURES(COLUMN) "durable+ options?+ policy?+ unusable?"),
	LIST("listBindings", "exchange to destination pattern options?+ unusable?"),
	LIST("listGroups", "topic " GROUP_COLUMNS "paused"),
	LIST("listConsumers", "queue sid kind+ connection channel+ ack+ priority+ active? group partitions lag name+ user+ peer+ prefetch+ unacked delivered+"),
	LIST_OF_CELLS("listConnections", "connection name user peer via? protocol tls?+ vhost held_back/held bytes_in+ bytes_out+ channels+ pending+ output+"),
	LIST("listLocks", "name token connection? channel+ ttl_ms:duration+ since:time+ lapses:time waiting?"),
	LIST_OF_CELLS("listVhosts", "name exchanges+ queues topics connections ready delayed+ unacked buried"),
	LIST("listBrokers", "node at state cell? version clients since:time"),
	{ "getHistory", .print_take = print_history_take },
	{ "getSample", .view = { .units = "t:time oldest_ready_ms:duration" } },
	{ "listRules", .view = { .columns = "file uses calls errors time_us?+ doc", .array = "scripts" } },
	STATS("stats"),
	STATS("getExchange"),
	STATS("getQueue"),
	STATS("getTopic"),
	{ "addUser", .begin = begin_password, .run = run_silent },
	{ "setPassword", .begin = begin_password, .run = run_silent },
	SILENT("deleteUser"),
	SILENT("putGrant"),
	SILENT("deleteGrant"),
	SILENT("setUser"),
	{ "listUsers", .print_take = print_users_take },
	{ "listShared", .run = run_list_shared },
	{ "clearShared", .run = run_clear_shared },
	{ "getShared", .print_take = print_value_take },
	SILENT("putShared"),
	SILENT("deleteShared"),
	{ "reload", .print_take = print_reload_take },
	{ "getRules", .print_take = print_status_take },
	{ "getRulesLog", .print_take = print_log_take },
	{ "rollback", .print_take = print_switch_take },
	{ "promote", .print_take = print_switch_take },
	{ "showScript", .print_take = print_scripts_take },
	{ "evaluate", .print_take = print_values_take },
	{ "simulateRetry", .print_take = print_simulation_take },
	{ "simulateDeclare", .run = run_simulate_declare },
	{ "startShadow", .print_take = print_shadow_take },
	{ "getShadow", .print_take = print_shadow_take },
	{ "getRecent", .view = { .columns = "number published_ms:time exchange key priority? size headers decision:decision" } },
	{ "replay", .print_take = print_replay_take },
};
/* clang-format on */

const struct cli_answer *cli_answer_find(const char *operation)
{
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (strcmp(answers[i].operation, operation) == 0)
			return &answers[i];
	return NULL;
}

static const struct option_row list_options[] = {
	{ COMMAND_FLAG("wide", CLI_WIDE_HELP) },
	{ .name = NULL },
};

static const struct option_row user_options[] = {
	{ COMMAND_FLAG("no-password",
		       "add: the user logs in by a certificate or a script alone") },
	{ .name = NULL },
};

static const struct option_row shared_options[] = {
	{ COMMAND_NUMBER("max", "1000", "list: as many entries at most", 1, 100000000) },
	{ .name = NULL },
};

static const struct option_row rules_options[] = {
	{ COMMAND_FLAG("this-generation",
		       "top: since the active rules were loaded, not since the start") },
	{ COMMAND_FLAG("last-minute", "top: of the last minute") },
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

#define BIND_DETAILS                                                              \
	"With dest=exchange QUEUE is the name of an exchange. Other NAME=VALUE\n" \
	"are for the exchange's routing script. PATTERN - is the empty pattern."

/* Help alone: the requests are made by cli_operation.c. */
/* clang-format off */
static const struct cli_notes notes[] = {
	{ .verb = "declare",
	  .summary = "declare an exchange, a queue, a topic or a vhost",
	  .details =
		  "NAME=VALUE are the options of DECLARE in docs/protocol.md.\n"
		  "The broker chooses the name of 'queue -', which is printed.\n"
		  "With update=1 what exists gets these options, and keeps the others.",
	  .examples = "  tidemq declare exchange orders topic\n"
		      "  tidemq declare queue jobs retry=exponential retry.base=500ms\n"
		      "  tidemq declare queue jobs retry.max=5 ttl= update=1\n"
		      "  tidemq declare topic events partitions=4\n"
		      "  tidemq declare vhost shop\n"
		      "  tidemq declare vhost tubes on-demand=1\n" },
	{ .verb = "delete",
	  .summary = "delete an exchange, a queue, a topic, a vhost that is empty, or a group of a topic",
	  .examples = "  tidemq delete queue jobs --if-empty\n"
		      "  tidemq delete group events billing\n" },
	{ .verb = "bind",
	  .details = BIND_DETAILS,
	  .examples = "  tidemq bind jobs orders 'orders.*.paid'\n" },
	{ .verb = "unbind",
	  .details = BIND_DETAILS,
	  .examples = "  tidemq unbind jobs orders 'orders.*.paid'\n" },
	{ .verb = "remove",
	  .details = "Whatever their state: a consumer that holds one has lost it.\n" CLI_MATCH_HELP,
	  .examples = "  tidemq remove jobs 687f6b0a11800000\n"
		      "  tidemq remove jobs --match h:tier=gold --dry\n" },
	{ .verb = "reschedule",
	  .details = CLI_MATCH_HELP,
	  .examples = "  tidemq reschedule jobs 687f6b0a11800000 --delay 1h\n"
		      "  tidemq reschedule jobs --match key:orders.eu.* --pri 9\n" },
	{ .verb = "find", .examples = "  tidemq find jobs 687f6b0a11800000\n" },
	{ .verb = "purge",
	  .summary = "remove the messages of a queue that no consumer holds, or those of a topic",
	  .details = CLI_POSITION_HELP "\n" CLI_MATCH_HELP,
	  .examples = "  tidemq purge jobs\n"
		      "  tidemq purge events --before 2026-11-23T10:00:00Z\n" },
	{ .verb = "seek",
	  .summary = "set where a group of a topic goes on",
	  .details = CLI_POSITION_HELP,
	  .examples = "  tidemq seek events billing 90m\n"
		      "  tidemq seek events billing first\n" },
	{ .verb = "redrive",
	  .details = CLI_MATCH_HELP,
	  .examples = "  tidemq redrive dead --count 100\n" },
	{ .verb = "kick",
	  .summary = "make buried messages of a queue ready again",
	  .details = CLI_MATCH_HELP,
	  .examples = "  tidemq kick jobs\n" },
	{ .verb = "pause",
	  .summary = "have a queue refuse publishes, hold back deliveries, or both; or hold back those of a group of a topic",
	  .examples = "  tidemq pause jobs out --for 10m\n"
		      "  tidemq pause group events billing\n" },
	{ .verb = "resume",
	  .summary = "end a pause",
	  .examples = "  tidemq resume jobs\n"
		      "  tidemq resume group events billing\n" },
	{ .verb = "list",
	  .summary = "list exchanges, queues, topics, groups, bindings, consumers, connections, locks, vhosts, samples of the last hour or scripts",
	  .details = "Of queues the order is by name, ready, delayed, unacked, buried, age, in, out\nor consumers; of others see LIST in docs/protocol-operate.md.",
	  .examples = "  tidemq list queues\n"
		      "  tidemq list queues --sort ready --max 10\n"
		      "  tidemq list bindings --json\n"
		      "  tidemq list history --queue events --group billing\n",
	  .options = list_options },
	{ .verb = "stats",
	  .summary = "show the figures of the broker, of a queue, a topic or an exchange",
	  .details = "'exchange -' is the default exchange.",
	  .examples = "  tidemq stats\n"
		      "  tidemq stats jobs\n" },
	{ .verb = "user",
	  .summary = "add, change, delete and list users",
	  .details =
		  "A password is typed, or it is the first line of standard input if that is\n"
		  "no terminal. PATTERN is an extended regular expression that matches\n"
		  "anywhere in the name: '^orders' is what begins with it, '.*' is\n"
		  "everything; the pattern of what is not given matches nothing.\n"
		  "The first user needs --tags admin. From then on everybody must log in:\n"
		  "tide://NAME:PASSWORD@HOST/, in $TIDEMQ_URL and not in --url.",
	  .examples = "  tidemq user add alice --tags admin\n"
		      "  tidemq user grant bob shop --write '^orders' --read '.*'\n"
		      "  tidemq user set bob --publish-rate 1000\n",
	  .options = user_options },
	{ .verb = "shared",
	  .summary = "show and change what scripts keep in tide.shared",
	  .examples = "  tidemq shared list limit:\n"
		      "  tidemq shared set limit:acme 500 --type integer\n"
		      "  tidemq shared delete rate_limit/acme --of buckets\n",
	  .options = shared_options },
	{ .verb = "rules",
	  .summary = "show and change the active rules",
	  .details =
		  "After a rollback or a promotion the rules directory stays as it is, and its\n"
		  "next change replaces the generation. Of `simulate retry` NAME=VALUE are the\n"
		  "options of the script, with or without \"retry.\" before them, and\n"
		  "delivery-limit and ack-timeout as a queue has them.",
	  .examples = "  tidemq rules status\n"
		      "  tidemq rules show filter/20-orders --source\n"
		      "  tidemq rules shadow ./rules.next --share 10%\n"
		      "  tidemq rules shadow ./rules.next --share 1% --apply h:customer\n"
		      "  tidemq rules push ./rules --for 5m --allow rank\n"
		      "  tidemq rules rollback\n"
		      "  tidemq rules eval 'tide.queue(\"jobs\").ready'\n"
		      "  tidemq rules simulate retry exponential base=500ms cap=1m delivery-limit=0\n"
		      "  tidemq rules simulate login user=bob vhost=shop\n"
		      "  tidemq rules simulate access user=bob action=write kind=queue name=jobs\n"
		      "  tidemq rules simulate declare kind=queue name=jobs ttl=1d\n",
	  .options = rules_options,
	  .locals = { { "top", "", "What the scripts cost, the most expensive first", 0,
			run_rules_top },
		      { "push", "DIR",
			"Check and test DIR here, try it on live traffic, make it active if nothing differs that --allow does not list",
			1, cli_push_run },
		      { "new", "KIND NAME",
			"Write a script with its spec: tidemq help rules new", 0, NULL },
		      { "repl", "", "A prompt to try rules at: tidemq help rules repl", 0,
			NULL } } },
	{ .verb = "drain",
	  .summary = "take no publishes, so that the broker can be stopped" },
	{ .verb = "kill", .examples = "  tidemq kill connection 7\n" },
};
/* clang-format on */

const struct cli_notes *cli_notes_find(const char *verb)
{
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
		if (strcmp(notes[i].verb, verb) == 0)
			return &notes[i];
	return NULL;
}
