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

/* ---- an event as a line --------------------------------------------------------------
 */

static json_int_t number(const json_t *event, const char *name)
{
	return json_integer_value(json_object_get(event, name));
}

static bool has(const json_t *event, const char *name)
{
	return json_object_get(event, name) != NULL;
}

/* " by sharding/hash.lua:12", if the script was asked. */
static void add_decider(struct buf *out, const json_t *pick, const char *kind)
{
	char line[32];

	snprintf(line, sizeof(line), "%s_line", kind);
	if (has(pick, line))
		buf_printf(out, " by %s:%" JSON_INTEGER_FORMAT,
			   cli_table_text(pick, kind, "-"), number(pick, line));
}

/* "q/0", "t/2", with who has chosen it */
static void add_pick(struct buf *out, const json_t *pick)
{
	bool is_topic = has(pick, "partition");
	const json_t *rank = json_object_get(pick, "rank");

	buf_printf(out, " %s/%" JSON_INTEGER_FORMAT, cli_table_text(pick, "queue", "-"),
		   number(pick, is_topic ? "partition" : "shard"));
	add_decider(out, pick, "sharding");
	if (rank && json_number_value(rank) != 0) {
		buf_printf(out, " rank %g", json_number_value(rank));
		add_decider(out, pick, "priority");
	}
	if (has(pick, "refused"))
		buf_printf(out, " (%s)", cli_table_text(pick, "refused", ""));
}

/* "filters/stamp.lua:12" */
static void add_script(struct buf *out, const json_t *step)
{
	buf_printf(out, " %s", cli_table_text(step, "script", "-"));
	if (has(step, "line"))
		buf_printf(out, ":%" JSON_INTEGER_FORMAT, number(step, "line"));
}

static void add_filters(struct buf *out, const json_t *filters)
{
	const json_t *step, *change;
	size_t i, n;

	json_array_foreach(filters, i, step)
	{
		buf_append_text(out, i ? "," : "; filters");
		add_script(out, step);
		json_array_foreach(json_object_get(step, "changes"), n, change)
			buf_printf(out, "%s %s", n ? "," : " changes",
				   cli_table_text(change, "name",
						  cli_table_text(change, "field", "-")));
	}
}

static void add_exchanges(struct buf *out, const json_t *exchanges)
{
	const json_t *visit;
	size_t i;

	json_array_foreach(exchanges, i, visit)
	{
		buf_printf(out, "%s '%s'", i ? "," : "; exchange",
			   cli_table_text(visit, "exchange", "-"));
		add_script(out, visit);
	}
}

static void add_decision(struct buf *out, const json_t *decision)
{
	static const char *const failures[] = { "rejected", "denied", "error" };
	const json_t *queues = json_object_get(decision, "queues"), *pick;
	size_t i;

	add_filters(out, json_object_get(decision, "filters"));
	add_exchanges(out, json_object_get(decision, "exchanges"));
	for (i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
		if (has(decision, failures[i]))
			buf_printf(out, "; %s: %s", failures[i],
				   cli_table_text(decision, failures[i], ""));
	buf_append_text(out, json_array_size(queues) ? "; to" : "; to no queue");
	json_array_foreach(queues, i, pick)
	{
		if (i > 0)
			buf_append_char(out, ',');
		add_pick(out, pick);
	}
}

static void add_published(struct buf *out, const json_t *event)
{
	buf_printf(out, "%s %s, ", cli_table_text(event, "exchange", "-"),
		   cli_table_text(event, "key", "-"));
	buf_append_count(out, (uint64_t)number(event, "size"), "byte");
	if (has(event, "user"))
		buf_printf(out, ", by %s", cli_table_text(event, "user", "-"));
	if (has(event, "connection"))
		buf_printf(out, ", connection %" JSON_INTEGER_FORMAT,
			   number(event, "connection"));
	if (has(event, "payload"))
		buf_printf(out, ", payload '%s'", cli_table_text(event, "payload", ""));
	if (has(event, "decision"))
		add_decision(out, json_object_get(event, "decision"));
}

/* Where it is. */
static void add_place(struct buf *out, const json_t *event)
{
	if (has(event, "topic"))
		buf_printf(
			out, "%s %" JSON_INTEGER_FORMAT ":%" JSON_INTEGER_FORMAT "%s%s",
			cli_table_text(event, "topic", "-"), number(event, "partition"),
			number(event, "offset"), has(event, "group") ? " group " : "",
			cli_table_text(event, "group", ""));
	else
		buf_append_text(out, cli_table_text(event, "queue", "-"));
}

static void add_delivered(struct buf *out, const json_t *event)
{
	add_place(out, event);
	buf_printf(out,
		   " to connection %" JSON_INTEGER_FORMAT " channel %" JSON_INTEGER_FORMAT
		   " sid %s, attempt %" JSON_INTEGER_FORMAT "%s",
		   number(event, "connection"), number(event, "channel"),
		   cli_table_text(event, "sid", "-"), number(event, "attempt"),
		   has(event, "auto_ack") ? ", ack=auto" : "");
}

static void add_acked(struct buf *out, const json_t *event)
{
	add_place(out, event);
	if (has(event, "held_ms"))
		buf_printf(out, ", held for %" JSON_INTEGER_FORMAT " ms",
			   number(event, "held_ms"));
}

static void add_returned(struct buf *out, const json_t *event)
{
	add_place(out, event);
	buf_printf(out, ", %s: %s", cli_table_text(event, "reason", "-"),
		   cli_table_text(event, "then", "-"));
	if (has(event, "delay_ms"))
		buf_printf(out, " of %" JSON_INTEGER_FORMAT " ms",
			   number(event, "delay_ms"));
	if (has(event, "by"))
		buf_printf(out, ", says %s", cli_table_text(event, "by", "-"));
	if (has(event, "line"))
		buf_printf(out, ":%" JSON_INTEGER_FORMAT, number(event, "line"));
}

/* The headers of the delivery, if a script has changed them. */
static void add_headers(struct buf *out, json_t *headers)
{
	const char *name;
	json_t *value;

	if (!headers)
		return;
	buf_append_text(out, json_object_size(headers) ? ", with the headers"
						       : ", without headers");
	json_object_foreach(headers, name, value)
		buf_printf(out, " %s=%s", name, json_string_value(value));
}

/* The answer of a script of deliver/ or settled/. */
static void add_offered(struct buf *out, const json_t *event)
{
	buf_printf(out, "%s,",
		   cli_table_text(event, "queue", cli_table_text(event, "topic", "-")));
	add_script(out, event);
	buf_printf(out, ": %s",
		   cli_table_text(event, "error", cli_table_text(event, "then", "-")));
	if (has(event, "delay_ms"))
		buf_printf(out, " of %" JSON_INTEGER_FORMAT " ms",
			   number(event, "delay_ms"));
	if (has(event, "reason"))
		buf_printf(out, ", %s", cli_table_text(event, "reason", "-"));
	add_headers(out, json_object_get(event, "headers"));
}

static void add_settled(struct buf *out, const json_t *event)
{
	buf_printf(out, "%s %s,", cli_table_text(event, "queue", "-"),
		   cli_table_text(event, "event", "-"));
	add_script(out, event);
	if (has(event, "error"))
		buf_printf(out, ": %s", cli_table_text(event, "error", "-"));
	else
		buf_printf(out, ": %" JSON_INTEGER_FORMAT " copies",
			   number(event, "copies"));
}

static void add_dead(struct buf *out, const json_t *event)
{
	buf_printf(out, "from %s to %s %s, as %s", cli_table_text(event, "queue", "-"),
		   cli_table_text(event, "exchange", "-"),
		   cli_table_text(event, "key", "-"), cli_table_text(event, "copy", "-"));
}

static void add_copied(struct buf *out, const json_t *event)
{
	buf_printf(out, "as %s, by %s", cli_table_text(event, "copy", "-"),
		   cli_table_text(event, "by", "-"));
}

static void add_confirmed(struct buf *out, const json_t *event)
{
	buf_printf(out, "%" JSON_INTEGER_FORMAT " queue%s%s", number(event, "queues"),
		   number(event, "queues") == 1 ? "" : "s",
		   has(event, "duplicate") ? ", a duplicate" : "");
}

static void add_refused(struct buf *out, const json_t *event)
{
	buf_printf(out, "%s: %s", cli_table_text(event, "code", "-"),
		   cli_table_text(event, "error", "-"));
}

static const struct {
	const char *what;
	void (*add)(struct buf *out, const json_t *event);
} lines[] = {
	{ "published", add_published }, { "copied", add_copied },
	{ "confirmed", add_confirmed }, { "refused", add_refused },
	{ "delivered", add_delivered }, { "acked", add_acked },
	{ "returned", add_returned },   { "dead-lettered", add_dead },
	{ "offered", add_offered },     { "settled", add_settled },
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
		if (strcmp(what, lines[i].what) == 0)
			lines[i].add(&out, event);
	print_clean(&out);
	buf_deinit(&out);
}

/* ---- the connection ------------------------------------------------------------------
 */

static void end(struct tracing *t, int status)
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
		end(t, CLI_DONE);
	}
	json_decref(event);
	if (cli_flush() != CLI_DONE)
		end(t, CLI_FAILED);
}

static void refuse(struct tracing *t, const char *word, const char *text)
{
	if (!t->is_ended)
		cli_failure("%s%s%s", word, word[0] ? ": " : "", text);
	end(t, CLI_FAILED);
}

static void fail(struct tracing *t, const struct tidemq_error *why)
{
	refuse(t, why->word, why->text);
}

static void on_reply(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	if (reply->status != TIDEMQ_OK)
		refuse(ctx, reply->word, reply->text);
}

static void on_connected(struct tidemq_client *c, const struct tidemq_error *why,
			 void *ctx)
{
	struct tracing *t = ctx;

	if (why->status != TIDEMQ_OK)
		fail(t, why);
	else if (tidemq_send(c, buf_cstr(&t->cli->request), NULL, 0, on_reply, t) !=
		 TIDEMQ_OK)
		fail(t, tidemq_last_error(c));
}

/* Messages do not come: the client subscribes to no queue. */
static void on_msg(struct tidemq_client *c, struct tidemq_msg *m, void *ctx)
{
	tidemq_msg_free(m);
}

static void on_lost(struct tidemq_client *c, const struct tidemq_error *why, void *ctx)
{
	fail(ctx, why);
}

static void on_signal(uv_signal_t *signal, int number)
{
	end(signal->data, CLI_DONE);
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
		fail(&t, &err);
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
