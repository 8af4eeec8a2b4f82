/* cli_publish.c: pub. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli.h"

static const struct option_row options[] = {
	{ COMMAND_TEXT("header", "NAME=VALUE", NULL, "a header; may be repeated") },
	{ COMMAND_NUMBER("priority", "0", "0-255, higher is more urgent", 0, 255) },
	{ COMMAND_DURATION("delay", NULL,
			   "time before it is delivered: 250ms, 30s, 5m, 2h, 1d", 0, 0) },
	{ COMMAND_DURATION("ttl", NULL, "time after which it expires", 0, 0) },
	{ COMMAND_DURATION("ack-timeout", NULL,
			   "how long a consumer may hold it, instead of what the queue "
			   "says",
			   10, 24 * 3600 * 1000) },
	{ COMMAND_NUMBER("durable", "1",
			 "0 keeps it in memory alone: it may be lost with the broker", 0,
			 1) },
	{ COMMAND_TEXT("id", "ID", NULL,
		       "your own id: a queue that has seen it does not store it again") },
	{ COMMAND_NUMBER("expect", NULL,
			 "of a topic: only if its partition ends at this offset", 0, 0) },
	{ COMMAND_FLAG("unroutable", "succeed also when no queue takes it") },
	{ COMMAND_NUMBER("count", "1", "publish it N times", 1, UINT32_MAX) },
	{ COMMAND_FLAG("lines", "publish each line of standard input") },
	CLI_OPTION_RECONNECT,
	{ .name = NULL },
};

struct pub_request {
	struct tidemq_publication p;
	struct tidemq_header headers[ENCODE_HEADERS_MAX];
	char *header_names[ENCODE_HEADERS_MAX];
	struct buf input;
	uint64_t count;
};

static int add_header(const struct cli *cli, struct pub_request *pub, const char *text)
{
	const char *equals = strchr(text, '=');
	size_t i = pub->p.header_count;

	if (!equals || equals == text)
		return cli_usage_error(cli, "--header must be NAME=VALUE, not '%s'",
				       text);
	if (i == ENCODE_HEADERS_MAX)
		return cli_usage_error(cli, "a message has at most %d headers",
				       ENCODE_HEADERS_MAX);
	pub->header_names[i] = mem_strndup(text, (size_t)(equals - text));
	pub->headers[i] = (struct tidemq_header){ pub->header_names[i], equals + 1,
						  strlen(equals + 1) };
	pub->p.header_count++;
	return CLI_DONE;
}

static int read_options(const struct cli *cli, struct pub_request *pub)
{
	int status = CLI_DONE;

	pub->p = (struct tidemq_publication){
		.headers = pub->headers,
		.priority = (unsigned)cli_number(cli, "priority"),
		.must = !cli_is_given(cli, "unroutable"),
		.dedupe_id = cli_get(cli, "id"),
		.has_expected_offset = cli_is_given(cli, "expect"),
		.expected_offset = cli_number(cli, "expect"),
		.delay_ms = (int64_t)cli_number(cli, "delay"),
		.ttl_ms = (int64_t)cli_number(cli, "ttl"),
		.ack_timeout_ms = (int64_t)cli_number(cli, "ack-timeout"),
		.transient = cli_number(cli, "durable") == 0,
	};
	pub->count = cli_number(cli, "count");
	for (int i = 0; i < cli->line.given_count && status == CLI_DONE; i++)
		if (strcmp(cli->line.given[i].option->name, "header") == 0)
			status = add_header(cli, pub, cli->line.given[i].text);
	return status;
}

static const char *exchange_word(const char *word)
{
	return strcmp(word, "-") == 0 ? "" : word;
}

static int read_stdin(struct buf *input)
{
	size_t len;

	do {
		char *at = buf_reserve(input, 65536);

		len = fread(at, 1, 65536, stdin);
		buf_grow(input, len);
	} while (len > 0);
	if (ferror(stdin))
		return cli_failure("cannot read standard input: %s", strerror(errno));
	return CLI_DONE;
}

/* "1 queue and 2 topics" */
static void append_takers(struct buf *out, const struct tidemq_receipt *r)
{
	unsigned queues = r->queues - r->topics;

	if (queues || !r->topics)
		buf_append_count(out, queues, "queue");
	if (queues && r->topics)
		buf_append_text(out, " and ");
	if (r->topics)
		buf_append_count(out, r->topics, "topic");
}

static void print_receipt(const struct cli *cli, const struct tidemq_receipt *r)
{
	struct buf out = { 0 };

	if (cli->json) {
		buf_printf(&out, "{\"id\":\"%s\",\"queues\":%u", r->id, r->queues);
		if (r->is_duplicate)
			buf_append_text(&out, ",\"duplicate\":true");
		if (r->has_offset)
			buf_printf(&out,
				   ",\"topics\":%u,\"partition\":%u,\"offset\":%" PRIu64,
				   r->topics, r->partition, r->offset);
		buf_append_char(&out, '}');
	} else {
		buf_printf(&out,
			   r->is_duplicate ? "duplicate of %s in " : "published %s to ",
			   r->id);
		append_takers(&out, r);
		if (r->has_offset)
			buf_printf(&out, ", partition %u offset %" PRIu64, r->partition,
				   r->offset);
	}
	puts(buf_cstr(&out));
	buf_deinit(&out);
}

static int publish_one(struct cli *cli, struct pub_request *pub)
{
	struct tidemq_receipt receipt;
	int status;

	cli_begin_wait();
	status = tidemq_publish(cli->client, &pub->p, &receipt);
	cli_end_wait();
	if (status != TIDEMQ_OK)
		return cli_client_failure(cli);
	print_receipt(cli, &receipt);
	return CLI_DONE;
}

static int publish_pipelined(struct cli *cli, struct pub_request *pub, uint64_t *total)
{
	int status = TIDEMQ_OK;

	for (uint64_t i = 0; i < pub->count && status == TIDEMQ_OK; i++, ++*total)
		status = tidemq_publish_pipelined(cli->client, &pub->p);
	return status;
}

static int publish_lines(struct cli *cli, struct pub_request *pub, uint64_t *total)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;
	int status = TIDEMQ_OK;

	while (status == TIDEMQ_OK && (len = getline(&line, &cap, stdin)) >= 0) {
		if (len > 0 && line[len - 1] == '\n')
			len--;
		pub->p.payload = line;
		pub->p.payload_len = (size_t)len;
		status = publish_pipelined(cli, pub, total);
	}
	free(line);
	return status;
}

/* Some are stored. Those that were on their way are waited for: they count, too.
 *
 * @param total  that were to be published; by line those that were sent */
static int report_part(struct cli *cli, uint64_t total, bool by_line)
{
	const struct tidemq_error why = *tidemq_last_error(cli->client);
	bool is_sure = why.status == TIDEMQ_EREFUSED;
	int ignored = is_sure ? tidemq_flush(cli->client) : TIDEMQ_OK;
	uint64_t stored = tidemq_confirmed(cli->client);

	(void)ignored;
	if (cli->json)
		printf("{\"published\":%" PRIu64 "}\n", stored);
	return cli_failure("%s%" PRIu64 " of %" PRIu64 " %sstored; then: %s%s%s",
			   is_sure ? "" : "at least ", stored, total,
			   by_line ? "sent are " : "", why.word, why.word[0] ? ": " : "",
			   why.text);
}

static int publish_many(struct cli *cli, struct pub_request *pub, bool by_line)
{
	uint64_t total = 0;
	int status = by_line ? publish_lines(cli, pub, &total)
			     : publish_pipelined(cli, pub, &total);

	cli_begin_wait();
	if (status == TIDEMQ_OK)
		status = tidemq_flush(cli->client);
	cli_end_wait();
	if (status != TIDEMQ_OK)
		return report_part(cli, by_line ? total : pub->count, by_line);
	if (cli->json)
		printf("{\"published\":%" PRIu64 "}\n", total);
	else
		printf("published %" PRIu64 " message%s\n", total, total == 1 ? "" : "s");
	return CLI_DONE;
}

static int publish(struct cli *cli, struct pub_request *pub)
{
	bool by_line = cli_is_given(cli, "lines");
	const char *payload = cli->word_count > 2 ? cli->words[2] : NULL;
	int status = read_options(cli, pub);

	if (status != CLI_DONE)
		return status;
	if ((pub->p.dedupe_id || pub->p.has_expected_offset) &&
	    (by_line || pub->count > 1))
		return cli_usage_error(cli,
				       "--%s is for one message, not for --count or "
				       "--lines",
				       pub->p.dedupe_id ? "id" : "expect");
	if (by_line == (payload != NULL))
		return cli_usage_error(
			cli, "give a PAYLOAD, or - for standard input, or --lines");
	pub->p.exchange = exchange_word(cli->words[0]);
	pub->p.key = exchange_word(cli->words[1]);
	if (payload && strcmp(payload, "-") == 0) {
		status = read_stdin(&pub->input);
		pub->p.payload = buf_slice(&pub->input).data;
		pub->p.payload_len = buf_len(&pub->input);
	} else if (payload) {
		pub->p.payload = payload;
		pub->p.payload_len = strlen(payload);
	}
	if (status == CLI_DONE)
		status = cli_connect(cli, NULL);
	if (status != CLI_DONE)
		return status;
	return by_line || pub->count > 1 ? publish_many(cli, pub, by_line)
					 : publish_one(cli, pub);
}

static int run_pub(struct cli *cli)
{
	struct pub_request pub = { .input = { 0 } };
	int status = publish(cli, &pub);

	for (size_t i = 0; i < pub.p.header_count; i++)
		mem_free(pub.header_names[i]);
	buf_deinit(&pub.input);
	return status;
}

const struct cli_verb cli_publish_verbs[] = {
	{ .name = "pub",
	  .summary = "publish a message and wait until it is durable",
	  .usage = "[options] EXCHANGE KEY PAYLOAD|-",
	  .details = "EXCHANGE - is the default exchange, which gives the message to the "
		     "queue\n"
		     "that KEY names. PAYLOAD - reads it from standard input. With "
		     "--count or\n"
		     "--lines, publishes do not wait for the confirms of earlier ones.",
	  .examples =
		  "  tidemq pub - jobs 'resize cat.png'\n"
		  "  tidemq pub orders orders.eu.paid '{\"id\":7}' --header tier=gold\n"
		  "  tidemq pub - jobs --lines --reconnect <jobs.txt\n",
	  .options = options,
	  .words_min = 2,
	  .words_max = 3,
	  .run = run_pub },
	{ .name = NULL },
};
