/* cli_show.c: list, stats, peek, request, ping. */
#include <inttypes.h>
#include <strings.h>

#include <uv.h>

#include "base/mem.h"
#include "cli_table.h"
#include "figures/figure_rows.h"

#define PEEK_PAGE UINT64_C(100)

/* The columns of the figures of a kind of things. */
#define COLUMN(read, name, shown, sort, script, metric, kind, column, ...) column
#define GROUP_COLUMNS "group " GROUP_FIGURES(COLUMN)

static const struct list {
	const char *what;
	struct cli_table_view view;
} lists[] = {
	{ "exchanges",
	  { .columns = "name type durable+ auto_delete?+ " EXCHANGE_FIGURES(
		    COLUMN) "options?+ policy?+ unusable?" } },
	{ "queues",
	  { .columns = "name " QUEUE_FIGURES(
		    COLUMN) "durable+ paused options?+ policy?+ unusable?" } },
	{ "topics",
	  { .columns = "name " TOPIC_FIGURES(
		    COLUMN) "durable+ options?+ policy?+ unusable?" } },
	{ "bindings",
	  { .columns = "exchange to destination pattern options?+ unusable?" } },
	{ "groups", { .columns = "topic " GROUP_COLUMNS } },
	{ "consumers",
	  { .columns = "queue sid kind+ connection channel+ ack+ priority+ active? "
		       "group partitions prefetch+ unacked "
		       "delivered+" } },
	{ "connections",
	  { .columns =
		    "connection name user peer protocol tls?+ vhost "
		    "held_back/held bytes_in+ bytes_out+ channels+ pending+ output+" } },
	{ "locks",
	  { .columns = "name token connection? channel+ ttl_ms:duration+ since:time+ "
		       "lapses:time "
		       "waiting?" } },
	{ "vhosts",
	  { .columns = "name exchanges+ queues topics connections ready delayed+ "
		       "unacked buried" } },
	{ "history",
	  { .columns = "t:time/time published/in delivered/out acked+ ready unacked+ "
		       "delayed+ buried+ oldest_ready_ms:duration/oldest connections+ "
		       "memory_bytes/memory+ unstored_bytes/unstored+ store_ms+ "
		       "loop_busy+" } },
	{ "now", { .units = "t:time oldest_ready_ms:duration" } },
	{ "rules",
	  { .columns = "file uses calls errors time_us?+ doc", .array = "scripts" } },
};

static void add_page(struct cli *cli)
{
	static const char *const options[] = { "sort",   "order", "max",
					       "offset", "match", NULL };

	for (const char *const *name = options; *name; name++)
		if (cli_is_given(cli, *name))
			cli_add_value(cli, slice_from(*name), cli_get(cli, *name));
}

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

static int print_history(struct cli *cli, const struct cli_table_view *view)
{
	json_t *document = cli_table_ask_document(cli), *rows;

	if (!document)
		return cli->status;
	rows = rows_of_history(document);
	json_decref(document);
	return cli_table_print_take(rows, view);
}

static int run_list(struct cli *cli)
{
	const char *what = cli->words[0];
	struct cli_table_view view;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (strcmp(what, lists[i].what) == 0) {
			buf_printf(&cli->request, "LIST %s", what);
			add_page(cli);
			view = lists[i].view;
			view.is_wide = cli_is_given(cli, "wide");
			if (strcmp(what, "history") == 0)
				return print_history(cli, &view);
			return cli_table_ask(cli, &view);
		}
	}
	return cli_usage_error(cli,
			       "there is no list of '%s'; expected exchanges, queues, "
			       "topics, groups, bindings, consumers, connections, locks, "
			       "vhosts, history, now or rules",
			       what);
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

static int run_stats(struct cli *cli)
{
	static const struct cli_table_view view = {
		.units = "uptime_ms:duration oldest_ready_ms:duration "
			 "oldest_lease_ms:duration",
		.arrays = { { "per_partition",
			      "partition start end bytes last:time held_back held_by "
			      "held_since:time compacted?" },
			    { "groups", GROUP_COLUMNS },
			    { "per_group", "group partition committed end lag held? "
					   "returned? ahead? stopped?" },
			    { "metrics", "name labels type value count sum file" } },
	};
	json_t *document;

	buf_append_text(&cli->request, "STATS");
	for (int i = 0; i < cli->word_count; i++)
		cli_add_word(cli, cli->words[i]);
	document = cli_table_ask_document(cli);
	if (!document)
		return cli->status;
	flatten_groups(document);
	return cli_table_print_take(document, &view);
}

/* The option that goes on at such a `next`: of a queue it names a message. */
static const char *peek_option(const char *next)
{
	return strchr(next, '@') ? "after" : "offset";
}

/* Ask for the messages from there on; NULL: as the options say. */
static json_t *peek_page(struct cli *cli, const char *next)
{
	static const char *const options[] = { "state", "partition", "match",
					       "after", "offset",    NULL };
	struct tidemq_reply reply;

	buf_clear(&cli->request);
	buf_append_text(&cli->request, "PEEK");
	cli_add_word(cli, cli->words[0]);
	buf_printf(&cli->request, " %" PRIu64,
		   cli_is_given(cli, "all") ? PEEK_PAGE : cli_number(cli, "count"));
	for (const char *const *name = options; *name; name++)
		if (next && strcmp(*name, peek_option(next)) == 0)
			cli_add_value(cli, slice_from(*name), next);
		else if (cli_is_given(cli, *name))
			cli_add_value(cli, slice_from(*name), cli_get(cli, *name));
	if (cli_ask(cli, &reply) != CLI_DONE)
		return NULL;
	if (cli->json)
		puts(reply.text);
	return cli_table_parse(cli, &reply);
}

/* What a dead letter tells of its last death, beside what its queue knows. */
static void lift_deaths(json_t *page)
{
	json_t *m, *death;
	size_t i;

	json_array_foreach(json_object_get(page, "messages"), i, m)
	{
		death = json_object_get(m, "death");
		if (!json_object_get(m, "reason"))
			json_object_set(m, "reason", json_object_get(death, "reason"));
		json_object_set(m, "source", json_object_get(death, "queue"));
		json_object_set(m, "died", json_object_get(death, "time"));
		json_object_set(m, "attempts", json_object_get(death, "attempts"));
	}
}

/* A search may find nothing in a page, of which there is nothing to print. */
static int print_page(struct cli *cli, json_t *page, bool is_only)
{
	const struct cli_table_view view = {
		.columns =
			"id partition offset exchange+ key priority+ ts:time+ due:time "
			"deliveries+ failures+ "
			"reason reason_text/text source died:time attempts "
			"headers+ size+ payload:payload",
		.array = "messages",
		.is_wide = cli_is_given(cli, "wide"),
	};

	lift_deaths(page);
	if (!cli->json &&
	    (is_only || json_array_size(json_object_get(page, "messages")) > 0))
		return cli_table_print_take(page, &view);
	json_decref(page);
	return CLI_DONE;
}

static int run_peek(struct cli *cli)
{
	bool is_all = cli_is_given(cli, "all");
	char *next = NULL;
	json_t *page = peek_page(cli, NULL);

	while (page) {
		const char *text = cli_table_text(page, "next", NULL);

		mem_free(next);
		next = text ? mem_strdup(text) : NULL;
		cli->status = print_page(cli, page, !is_all);
		if (!is_all || !next || cli->status != CLI_DONE)
			break;
		page = peek_page(cli, next);
	}
	if (!is_all && next && !cli->json)
		fprintf(stderr, "there may be more: --%s %s\n", peek_option(next), next);
	mem_free(next);
	return cli->status;
}

static int run_find(struct cli *cli)
{
	static const struct cli_table_view view = {
		.units = "ts:time due:time expires:time deadline:time buried:time "
			 "until:time"
	};

	buf_append_text(&cli->request, "FIND");
	cli_add_word(cli, cli->words[0]);
	cli_add_word(cli, cli->words[1]);
	return cli_table_ask(cli, &view);
}

static int run_ping(struct cli *cli)
{
	struct tidemq_reply reply;
	uint64_t start;

	cli->status = cli_connect(cli, NULL);
	buf_append_text(&cli->request, "PING");
	start = uv_hrtime();
	if (cli_ask(cli, &reply) == CLI_DONE)
		printf(cli->json ? "{\"ok\":true,\"ms\":%.3f}\n" : "OK in %.3f ms\n",
		       (double)(uv_hrtime() - start) / 1e6);
	return cli->status;
}

/* GET and SUB are answered with messages, which the verbs of these names print. */
static bool is_of_messages(const char *line)
{
	struct slice rest = slice_from(line), verb = slice_cut(&rest, ' ');

	if (verb.len > 0 && verb.data[0] == '@')
		verb = slice_cut(&rest, ' ');
	return verb.len == 3 && (strncasecmp(verb.data, "get", 3) == 0 ||
				 strncasecmp(verb.data, "sub", 3) == 0);
}

static int run_request(struct cli *cli)
{
	struct tidemq_reply reply;

	for (int i = 0; i < cli->word_count; i++) {
		if (i > 0)
			buf_append_char(&cli->request, ' ');
		buf_append_text(&cli->request, cli->words[i]);
	}
	if (is_of_messages(buf_cstr(&cli->request)))
		return cli_usage_error(cli, "use tidemq get or tidemq sub");
	if (cli_ask(cli, &reply) != CLI_DONE)
		return cli->status;
	if (reply.is_document)
		puts(reply.text);
	else if (cli->json)
		puts("{\"ok\":true}");
	else
		printf("OK%s%s\n", reply.len > 0 ? " " : "", reply.text);
	return CLI_DONE;
}

#define WIDE_HELP "all columns, also those for which the terminal is too narrow"

static const struct option_row peek_options[] = {
	{ COMMAND_FLAG("all", "all of them, in tables of up to 100") },
	{ COMMAND_TEXT("after", "PLACE", NULL,
		       "only those behind this place: the next of an answer, or an id") },
	{ COMMAND_NUMBER("count", "10", "1-100: how many at most", 1, PEEK_PAGE) },
	{ COMMAND_TEXT("match", "WHAT", NULL, "only those that match, see above") },
	{ COMMAND_TEXT("offset", "POSITION", NULL,
		       "of a topic, from there on: an offset, first, a time (default: "
		       "first)") },
	{ COMMAND_NUMBER("partition", NULL, "which one of a topic", 0, 63) },
	{ COMMAND_CHOICE("state", "ready|delayed|unacked|buried", "ready",
			 "which of a queue") },
	{ COMMAND_FLAG("wide", WIDE_HELP) },
	{ .name = NULL },
};

static const struct option_row list_options[] = {
	{ COMMAND_TEXT("match", "PART", NULL, "only those with this part in a name") },
	{ COMMAND_NUMBER("max", NULL, "how many at most", 1, UINT32_MAX) },
	{ COMMAND_NUMBER("offset", NULL, "leave out so many at the front", 0,
			 UINT32_MAX) },
	{ COMMAND_CHOICE("order", "asc|desc", NULL,
			 "smallest or largest first (default: depends on --sort)") },
	{ COMMAND_TEXT("sort", "BY", NULL,
		       "of queues: name, ready, delayed, unacked, buried, age, in, out, "
		       "consumers; of others: LIST in docs/protocol.md") },
	{ COMMAND_FLAG("wide", WIDE_HELP) },
	{ .name = NULL },
};

const struct cli_verb cli_show_verbs[] = {
	{ .name = "list",
	  .summary = "list exchanges, queues, topics, groups, bindings, consumers, "
		     "connections, locks, vhosts, samples of the last hour or scripts",
	  .usage = "[options] exchanges|queues|topics|groups|bindings|consumers|"
		   "connections|locks|vhosts|history|now|rules",
	  .examples = "  tidemq list queues\n"
		      "  tidemq list queues --sort ready --max 10\n"
		      "  tidemq list bindings --json\n",
	  .options = list_options,
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_list },
	{ .name = "stats",
	  .summary = "show the figures of the broker, of a queue, a topic or an exchange",
	  .usage = "[options] [QUEUE | TOPIC | exchange EXCHANGE]",
	  .details = "'exchange -' is the default exchange.",
	  .examples = "  tidemq stats\n"
		      "  tidemq stats jobs\n",
	  .words_max = 2,
	  .run = run_stats },
	{ .name = "peek",
	  .summary = "show messages of a queue or a topic without taking them",
	  .usage = "[options] QUEUE|TOPIC",
	  .details = CLI_MATCH_HELP,
	  .examples = "  tidemq peek jobs --state delayed\n"
		      "  tidemq peek jobs --match h:tier=gold --count 3\n",
	  .options = peek_options,
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_peek },
	{ .name = "request",
	  .summary = "send any request of the protocol and print the reply",
	  .usage = "[options] WORD...",
	  .details =
		  "The words are those of docs/protocol.md, with single spaces between "
		  "them.",
	  .examples = "  tidemq request KILL connection 7\n"
		      "  tidemq request DECLARE queue jobs\n",
	  .words_min = 1,
	  .words_max = 80,
	  .run = run_request },
	{ .name = "find",
	  .summary = "show a message of a queue by its id",
	  .usage = "[options] QUEUE ID",
	  .examples = "  tidemq find jobs 687f6b0a11800000\n",
	  .words_min = 2,
	  .words_max = 2,
	  .run = run_find },
	{ .name = "ping",
	  .summary = "check that the broker answers",
	  .usage = "[options]",
	  .examples = "  tidemq ping --url tide://127.0.0.1:7310/\n",
	  .run = run_ping },
	{ .name = NULL },
};
