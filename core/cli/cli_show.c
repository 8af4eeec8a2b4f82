/* cli_show.c: peek, request, ping. */
#include <inttypes.h>
#include <strings.h>

#include <uv.h>

#include "base/mem.h"
#include "cli_table.h"

#define PEEK_PAGE UINT64_C(100)

/* The option that goes on at such a `next`: of a queue it names a message, of the newest
 * ones of a topic a place in each partition. */
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
	buf_printf(&cli->request, " %" PRIu64 "%s",
		   cli_is_given(cli, "all") ? PEEK_PAGE : cli_number(cli, "count"),
		   cli_is_given(cli, "newest") ? " newest" : "");
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

/* The last death of a dead letter, beside what its queue knows. */
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

static const struct option_row peek_options[] = {
	{ COMMAND_FLAG("all", "all of them, in tables of up to 100") },
	{ COMMAND_TEXT("after", "PLACE", NULL,
		       "only those behind this place: the next of an answer, or an id") },
	{ COMMAND_NUMBER("count", "10", "1-100: how many at most", 1, PEEK_PAGE) },
	{ COMMAND_TEXT("match", "WHAT", NULL, "only those that match, see above") },
	{ COMMAND_FLAG("newest", "of a topic: the newest first, of all partitions") },
	{ COMMAND_TEXT("offset", "POSITION", NULL,
		       "of a topic, from there on: an offset, first, a time (default: "
		       "first)") },
	{ COMMAND_NUMBER("partition", NULL, "which one of a topic", 0, 63) },
	{ COMMAND_CHOICE("state", "ready|delayed|unacked|buried", "ready",
			 "which of a queue") },
	{ COMMAND_FLAG("wide", CLI_WIDE_HELP) },
	{ .name = NULL },
};

const struct cli_verb cli_show_verbs[] = {
	{ .name = "peek",
	  .summary = "show messages of a queue or a topic without taking them",
	  .usage = "[options] QUEUE|TOPIC",
	  .details = CLI_MATCH_HELP,
	  .examples = "  tidemq peek jobs --state delayed\n"
		      "  tidemq peek jobs --match h:tier=gold --count 3\n"
		      "  tidemq peek events --newest --count 20\n",
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
	  .examples = "  tidemq request HELP\n"
		      "  tidemq request DECLARE queue jobs\n",
	  .words_min = 1,
	  .words_max = 80,
	  .run = run_request },
	{ .name = "ping",
	  .summary = "check that the broker answers",
	  .usage = "[options]",
	  .examples = "  tidemq ping --url tide://127.0.0.1:7310/\n",
	  .run = run_ping },
	{ .name = NULL },
};
