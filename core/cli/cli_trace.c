/* cli_trace.c: trace. */
#include <inttypes.h>
#include <stdlib.h>
#include <uv.h>

#include "cli_table.h"

struct tracing {
	struct cli *cli;
	uv_loop_t loop;
	uv_signal_t signals[2];
	struct tidemq_client *client;
	int status;
	bool is_ended;
};

static json_int_t number(const json_t *event, const char *name)
{
	return json_integer_value(json_object_get(event, name));
}

/* "filters/stamp.lua:12" */
#define SCRIPT " {script}[line?:{line}]"
#define PLACE "[topic?{topic} {partition}:{offset}[group? group {group}]][topic!{queue}]"

static void add_filters(struct buf *out, const json_t *filters)
{
	const json_t *step;
	size_t i;

	json_array_foreach(filters, i, step)
	{
		const json_t *changes = json_object_get(step, "changes");

		buf_append_text(out, i ? "," : "; filters");
		cli_table_fill(out, SCRIPT, step);
		if (json_array_size(changes) > 0)
			buf_append_text(out, " changes ");
		cli_table_join(out, "{name|field}", changes);
	}
}

static void add_decision(struct buf *out, const json_t *event)
{
	const json_t *decision = json_object_get(event, "decision"), *item;
	const json_t *queues = json_object_get(decision, "queues");
	size_t i;

	if (!decision)
		return;
	add_filters(out, json_object_get(decision, "filters"));
	json_array_foreach(json_object_get(decision, "exchanges"), i, item)
	{
		buf_append_text(out, i ? "," : "; exchange");
		cli_table_fill(out, " '{exchange}'" SCRIPT, item);
	}
	cli_table_fill(out,
		       "[rejected?; rejected: {rejected}][denied?; denied: {denied}]"
		       "[error?; error: {error}]",
		       decision);
	buf_append_text(out, json_array_size(queues) ? "; to" : "; to no queue");
	json_array_foreach(queues, i, item)
	{
		bool is_ranked = json_number_value(json_object_get(item, "rank")) != 0;

		buf_append_text(out, i ? "," : "");
		cli_table_fill(out,
			       " {queue}/[partition?{partition}][partition!{shard}]"
			       "[sharding_line? by {sharding}:{sharding_line}]",
			       item);
		if (is_ranked)
			cli_table_fill(out,
				       " rank {rank}"
				       "[priority_line? by {priority}:{priority_line}]",
				       item);
		cli_table_fill(out, "[refused? ({refused})]", item);
	}
}

/* The headers of the delivery, if a script has changed them. */
static void add_headers(struct buf *out, const json_t *event)
{
	json_t *headers = json_object_get(event, "headers"), *value;
	const char *name;

	if (!headers)
		return;
	buf_append_text(out, json_object_size(headers) ? ", with the headers"
						       : ", without headers");
	json_object_foreach(headers, name, value)
		buf_printf(out, " %s=%s", name, json_string_value(value));
}

static void add_plural(struct buf *out, const json_t *event)
{
	buf_printf(out, "%s%s", number(event, "queues") == 1 ? "" : "s",
		   json_object_get(event, "duplicate") ? ", a duplicate" : "");
}

static void add_published(struct buf *out, const json_t *event)
{
	buf_append_count(out, (uint64_t)number(event, "size"), "byte");
	cli_table_fill(out,
		       "[user?, by {user}][connection?, connection {connection}]"
		       "[payload?, payload '{payload}']",
		       event);
	add_decision(out, event);
}

static const struct {
	const char *what, *text;
	void (*add)(struct buf *out, const json_t *event); /* behind it; or NULL */
} lines[] = {
	{ "published", "{exchange} {key}, ", add_published },
	{ "copied", "as {copy}, by {by}", NULL },
	{ "confirmed", "{queues} queue", add_plural },
	{ "refused", "{code}: {error}", NULL },
	{ "delivered",
	  PLACE " to connection {connection} channel {channel} sid {sid}, attempt "
		"{attempt}[auto_ack?, ack=auto]",
	  NULL },
	{ "acked", PLACE "[held_ms?, held for {held_ms} ms]", NULL },
	{ "returned",
	  PLACE ", {reason}: {then}[delay_ms? of {delay_ms} ms][by?, says {by}]"
		"[line?:{line}]",
	  NULL },
	{ "dead-lettered", "from {queue} to {exchange} {key}, as {copy}", NULL },
	{ "offered",
	  "{queue|topic}," SCRIPT ": {error|then}[delay_ms? of {delay_ms} ms]"
	  "[reason?, {reason}]",
	  add_headers },
	{ "settled",
	  "{queue} {event}," SCRIPT "[error?: {error}][error!: {copies} copies]", NULL },
};

/* Names and payloads are others': no control character reaches the terminal. */
static void print_clean(struct buf *out)
{
	for (size_t i = 0; i < buf_len(out); i++) {
		char *c = &out->data[out->start + i];

		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = ' ';
	}
	puts(buf_cstr(out));
}

static void print_line(const json_t *event)
{
	const char *what = cli_table_text(event, "what", "-");
	struct buf out = { 0 };

	if (strcmp(what, "end") == 0 || strcmp(what, "dropped") == 0)
		return;
	buf_printf(&out, "%s %10.3f ms  %-13s ", cli_table_text(event, "id", "-"),
		   json_number_value(json_object_get(event, "ms")), what);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (strcmp(what, lines[i].what) == 0) {
			cli_table_fill(&out, lines[i].text, event);
			if (lines[i].add)
				lines[i].add(&out, event);
		}
	print_clean(&out);
	buf_deinit(&out);
}

static void end_trace(struct tracing *t, int status)
{
	if (t->is_ended)
		return;
	t->is_ended = true;
	t->status = status;
	for (int i = 0; i < 2; i++)
		uv_close((uv_handle_t *)&t->signals[i], NULL);
	if (t->client)
		tidemq_close(t->client, NULL, NULL);
}

/* On standard error: how much it was, and what was lost. */
static void tell_end(const json_t *event)
{
	fprintf(stderr,
		"tidemq: the trace has ended (%s): %" JSON_INTEGER_FORMAT " message%s",
		cli_table_text(event, "why", "-"), number(event, "messages"),
		number(event, "messages") == 1 ? "" : "s");
	if (number(event, "dropped") > 0)
		fprintf(stderr, ", %" JSON_INTEGER_FORMAT " events were not read in time",
			number(event, "dropped"));
	fputc('\n', stderr);
}

static void on_event(struct tidemq_client *c, unsigned channel, const char *text,
		     void *ctx)
{
	static const char prefix[] = "trace ";
	struct tracing *t = ctx;
	const char *document = text + sizeof(prefix) - 1;
	json_t *event;

	if (strncmp(text, prefix, sizeof(prefix) - 1) != 0) {
		fprintf(stderr, "tidemq: event: %s\n", text);
		return;
	}
	event = json_loads(document, 0, NULL);
	if (t->cli->json)
		puts(document);
	else
		print_line(event);
	if (strcmp(cli_table_text(event, "what", ""), "end") == 0) {
		if (!t->cli->json)
			tell_end(event);
		end_trace(t, CLI_DONE);
	}
	json_decref(event);
	if (cli_flush() != CLI_DONE)
		end_trace(t, CLI_FAILED);
}

static void refuse_trace(struct tracing *t, const char *word, const char *text)
{
	if (!t->is_ended)
		cli_failure("%s%s%s", word, word[0] ? ": " : "", text);
	end_trace(t, CLI_FAILED);
}

static void fail_trace(struct tracing *t, const struct tidemq_error *why)
{
	refuse_trace(t, why->word, why->text);
}

static void on_reply(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	if (reply->status != TIDEMQ_OK)
		refuse_trace(ctx, reply->word, reply->text);
}

static void on_connected(struct tidemq_client *c, const struct tidemq_error *why,
			 void *ctx)
{
	struct tracing *t = ctx;

	if (why->status != TIDEMQ_OK)
		fail_trace(t, why);
	else if (tidemq_send(c, buf_cstr(&t->cli->request), NULL, 0, on_reply, t) !=
		 TIDEMQ_OK)
		fail_trace(t, tidemq_last_error(c));
}

/* Messages do not come: the client subscribes to no queue. */
static void on_msg(struct tidemq_client *c, struct tidemq_msg *m, void *ctx)
{
	tidemq_msg_free(m);
}

static void on_lost(struct tidemq_client *c, const struct tidemq_error *why, void *ctx)
{
	fail_trace(ctx, why);
}

static void on_signal(uv_signal_t *signal, int number)
{
	end_trace(signal->data, CLI_DONE);
}

static void write_request(struct cli *cli)
{
	buf_append_text(&cli->request, "TRACE");
	for (int i = 0; i < cli->word_count; i++)
		cli_add_word(cli, cli->words[i]);
	if (cli->status != CLI_DONE)
		return;
	buf_printf(&cli->request, " for=%" PRIu64 " max=%" PRIu64, cli_number(cli, "for"),
		   cli_number(cli, "max"));
	cli_add_value(cli, SLICE("sample"), cli_get(cli, "sample"));
	if (cli_is_given(cli, "payload"))
		cli_add_value(cli, SLICE("payload"), NULL);
}

static int run_trace(struct cli *cli)
{
	const int numbers[] = { SIGINT, SIGTERM };
	struct tracing t = { .cli = cli };
	const struct tidemq_options options = { .name = "tidemq-trace" };
	const struct tidemq_handlers handlers = { .ctx = &t,
						  .on_connected = on_connected,
						  .on_msg = on_msg,
						  .on_event = on_event,
						  .on_lost = on_lost };
	struct tidemq_error err;

	write_request(cli);
	if (cli->status != CLI_DONE)
		return cli->status;
	uv_loop_init(&t.loop);
	for (int i = 0; i < 2; i++) {
		uv_signal_init(&t.loop, &t.signals[i]);
		t.signals[i].data = &t;
		uv_signal_start(&t.signals[i], on_signal, numbers[i]);
	}
	t.client = tidemq_start(&t.loop, cli->url, &options, &handlers, &err);
	if (!t.client)
		fail_trace(&t, &err);
	uv_run(&t.loop, UV_RUN_DEFAULT);
	uv_loop_close(&t.loop);
	return t.status;
}

static const struct option_row options[] = {
	{ COMMAND_TEXT("sample", "SHARE", "100%", "follow this share of the messages") },
	{ COMMAND_DURATION("for", "60s", "time to follow messages, at most 1h", 100,
			   3600 * 1000) },
	{ COMMAND_NUMBER("max", "100", "messages to follow", 1, 10000) },
	{ COMMAND_FLAG("payload", "show the first 256 bytes of payloads") },
	{ .name = NULL },
};

const struct cli_verb cli_trace_verbs[] = {
	{ .name = "trace",
	  .summary = "follow messages as they are published, routed, delivered and acked",
	  .usage = "[options] EXCHANGE [KEY]",
	  .details = "EXCHANGE is - for the default exchange, * for all. KEY is a "
		     "pattern of\n"
		     "words with * and #, as of a topic exchange; # is the default.",
	  .examples = "  tidemq trace orders 'orders.eu.#' --for 10s\n"
		      "  tidemq trace '*' --sample 1% --max 10 --json\n",
	  .options = options,
	  .words_min = 1,
	  .words_max = 2,
	  .run = run_trace },
	{ .name = NULL },
};
