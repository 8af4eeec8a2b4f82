/* cli_consume.c: sub and get. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <jansson.h>

#include "cli.h"

/* Of one GET. */
#define GET_MAX 1000
#define GET_QUEUES_MAX 64
#define PREFETCH_DEFAULT 100
#define GET_WAIT_MAX_MS (3600 * 1000)
#define HEARTBEAT_MS 30000
/* A signal that comes between two of these waits is noticed so late. */
#define TURN_MS 200

#define FORMAT_DEFAULT "%k %p\\n"
#define FORMAT_HELP                                                                   \
	"FORMAT is text with %p payload, %k key, %e exchange, %i id, %t time of\n"    \
	"publication (ms), %a attempt, %P priority, %h headers, %H headers, a line\n" \
	"each, %n number of the partition, %o offset, %% a per cent sign, \\n line\n" \
	"end, \\t tab. The default is '" FORMAT_DEFAULT "'."

static void print_headers(const struct tidemq_msg *m, const char *between,
			  const char *after)
{
	for (size_t i = 0; i < m->header_count; i++) {
		printf("%s%s=", i ? between : "", m->headers[i].name);
		fwrite(m->headers[i].value, 1, m->headers[i].value_len, stdout);
		fputs(after, stdout);
	}
}

/* Where a topic has it. */
static void print_place(uint64_t number, const struct tidemq_msg *m)
{
	if (m->has_offset)
		printf("%" PRIu64, number);
	else
		putchar('-');
}

static void print_field(char field, const struct tidemq_msg *m)
{
	switch (field) {
	case 'p':
		fwrite(m->payload, 1, m->payload_len, stdout);
		break;
	case 'k':
		fputs(m->key[0] ? m->key : "-", stdout);
		break;
	case 'e':
		fputs(m->exchange[0] ? m->exchange : "-", stdout);
		break;
	case 'i':
		fputs(m->id, stdout);
		break;
	case 't':
		printf("%" PRId64, m->ts_unix_ms);
		break;
	case 'a':
		printf("%u", m->attempt);
		break;
	case 'P':
		printf("%u", m->priority);
		break;
	case 'n':
		print_place(m->partition, m);
		break;
	case 'o':
		print_place(m->offset, m);
		break;
	case 'h':
		print_headers(m, " ", "");
		break;
	case 'H':
		print_headers(m, "", "\n");
		break;
	default:
		putchar(field);
	}
}

static void print_formatted(const char *format, const struct tidemq_msg *m)
{
	for (; *format; format++) {
		if (*format == '%' && format[1])
			print_field(*++format, m);
		else if (*format == '\\' && format[1])
			putchar(*++format == 'n' ? '\n'
				: *format == 't' ? '\t'
						 : *format);
		else
			putchar(*format);
	}
}

/* Bytes that are not UTF-8 cannot stand in JSON. */
static json_t *json_bytes(const char *data, size_t len)
{
	json_t *text = json_stringn(data, len);

	return text ? text : json_null();
}

static void print_json(const struct tidemq_msg *m)
{
	json_t *headers = json_object(), *object;

	for (size_t i = 0; i < m->header_count; i++)
		json_object_set_new(
			headers, m->headers[i].name,
			json_bytes(m->headers[i].value, m->headers[i].value_len));
	object = json_pack("{s:s, s:s, s:s, s:I, s:i, s:i, s:b, s:o, s:I, s:o}", "id",
			   m->id, "exchange", m->exchange[0] ? m->exchange : "-", "key",
			   m->key, "ts", (json_int_t)m->ts_unix_ms, "priority",
			   (int)m->priority, "attempt", (int)m->attempt, "redelivered",
			   (int)m->redelivered, "headers", headers, "size",
			   (json_int_t)m->payload_len, "payload",
			   json_bytes(m->payload, m->payload_len));
	if (m->has_offset) {
		json_object_set_new(object, "partition", json_integer(m->partition));
		json_object_set_new(object, "offset",
				    json_integer((json_int_t)m->offset));
	}
	json_dumpf(object, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(object);
}

#define SID "cli"

/* The kind of arrival. */
enum arrival { ARRIVAL_MESSAGE, ARRIVAL_EVENT, ARRIVAL_NONE };

struct consuming {
	const char *format;
	const char *match; /* of get; NULL: any */
	/* Of a topic. */
	const char *group;  /* NULL: none */
	const char *from;   /* where to begin; NULL: the default */
	const char *offset; /* of get: where to look */
	bool has_partition;
	unsigned partition;
	uint64_t count; /* 0 = no end */
	unsigned prefetch;
	int priority;
	int64_t notify_lease_ms;
	bool is_exclusive;
	int64_t timeout_ms; /* negative = no end */
	int64_t ack_timeout_ms;
	bool is_auto;
	bool nack;
	const char *reason; /* of the nack; NULL: none */
	bool is_piped;      /* standard output has room for one message at a time */
	bool is_last;       /* of a subscription, which ends with the next message */
};

/* A reader like `head -n 1` reads what a pipe holds and drops what it does not want. So
 * the pipe gets room for one page, and each message waits until the reader has taken the
 * one before: who ends then has seen all that was acknowledged. */
static bool narrow_pipe(void)
{
	return fcntl(STDOUT_FILENO, F_SETPIPE_SZ, 4096) > 0;
}

/* Wait until the reader has taken all, for only then a pipe of one page has room again.
 * False: it has gone away without. */
static bool is_taken(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
	int left = 0;

	while (poll(&out, 1, -1) < 0)
		if (errno != EINTR)
			return true;
	return ioctl(STDOUT_FILENO, FIONREAD, &left) < 0 || left == 0;
}

static bool pass_late(struct cli *cli, int status)
{
	if (!cli_is_late(cli, status))
		return false;
	fprintf(stderr, "tidemq: late: %s\n", tidemq_last_error(cli->client)->text);
	return true;
}

/* The ack may report the loss of an earlier one, and is not sent then. If it is late
 * itself, the message comes again. */
static int ack(struct cli *cli, const struct tidemq_msg *m)
{
	int status = tidemq_ack_pipelined(cli->client, m);

	if (pass_late(cli, status))
		status = tidemq_ack_pipelined(cli->client, m);
	return pass_late(cli, status) ? TIDEMQ_OK : status;
}

static int settle(struct cli *cli, const struct consuming *c, const struct tidemq_msg *m)
{
	int status = TIDEMQ_OK;

	/* The ack would make room for a message that nobody wants any more. */
	if (c->is_last)
		status = tidemq_unsubscribe(cli->client, SID);
	if (status == TIDEMQ_OK)
		status = c->nack ? tidemq_nack_reason(cli->client, m, TIDEMQ_NACK_RETRY,
						      c->reason)
				 : ack(cli, m);
	return status == TIDEMQ_OK ? CLI_DONE : cli_client_failure(cli);
}

/* Print, and acknowledge only what has really been written. */
static int take(struct cli *cli, const struct consuming *c, const struct tidemq_msg *m)
{
	int status;

	if (cli->json)
		print_json(m);
	else
		print_formatted(c->format, m);
	status = cli_flush();
	if (status == CLI_DONE && c->is_piped && !is_taken())
		status = CLI_FAILED;
	return status == CLI_DONE && m->tag > 0 ? settle(cli, c, m) : status;
}

/* tidemq_next, which also ends soon after a signal. */
static int await(struct cli *cli, int64_t timeout_ms, struct tidemq_msg **m)
{
	bool is_endless = timeout_ms < 0;
	int64_t turn_ms;
	int status;

	do {
		turn_ms = is_endless || timeout_ms > TURN_MS ? TURN_MS : timeout_ms;
		timeout_ms -= turn_ms;
		status = tidemq_next(cli->client, turn_ms, m);
	} while (status == TIDEMQ_ETIMEDOUT && (is_endless || timeout_ms > 0) &&
		 !cli_is_ending());
	return status;
}

static int next(struct cli *cli, const struct consuming *c, int64_t timeout_ms,
		enum arrival *arrival)
{
	struct tidemq_msg *m;
	int status = await(cli, timeout_ms, &m);

	*arrival = ARRIVAL_NONE;
	if (status == TIDEMQ_ETIMEDOUT)
		return CLI_DONE;
	if (status == TIDEMQ_EEVENT) {
		*arrival = ARRIVAL_EVENT;
		fprintf(stderr, "tidemq: event: %s\n",
			tidemq_last_error(cli->client)->text);
		return CLI_DONE;
	}
	if (status == TIDEMQ_ECANCELLED)
		return cli_failure("the subscription ended: %s",
				   tidemq_last_error(cli->client)->text);
	if (status != TIDEMQ_OK)
		return cli_client_failure(cli);
	*arrival = ARRIVAL_MESSAGE;
	status = take(cli, c, m);
	tidemq_msg_free(m);
	return status;
}

/* Wait until the broker has all acks, also when the reader is gone. */
static int finish(struct cli *cli, int status)
{
	int flushed = tidemq_flush(cli->client);

	if (flushed == TIDEMQ_OK || pass_late(cli, flushed))
		return status;
	return status == CLI_DONE ? cli_client_failure(cli) : status;
}

static int get_some(struct cli *cli, const struct consuming *c, unsigned max,
		    int64_t wait_ms, unsigned *count)
{
	const struct tidemq_fetch fetch = {
		.queues = (const char *const *)cli->words,
		.queue_count = (size_t)cli->word_count,
		.max = max,
		.wait_ms = wait_ms,
		.auto_ack = c->is_auto,
		.ack_timeout_ms = c->ack_timeout_ms,
		.match = c->match,
		.group = c->group,
		.has_partition = c->has_partition,
		.partition = c->partition,
		.from = c->from,
		.offset = c->offset,
	};
	int status = CLI_DONE;
	enum arrival arrival;

	if (tidemq_get(cli->client, &fetch, count) != TIDEMQ_OK)
		return cli_client_failure(cli);
	cli_catch_signals(true);
	for (unsigned i = 0; i < *count && status == CLI_DONE && !cli_is_ending();) {
		status = next(cli, c, -1, &arrival);
		i += arrival == ARRIVAL_MESSAGE;
	}
	status = finish(cli, status);
	cli_catch_signals(false);
	return status;
}

/* A subscription would be sent more than `count`: each ack makes room for another
 * message. GET never takes more than it is asked for. */
static int sub_counted(struct cli *cli, const struct consuming *c)
{
	unsigned batch = c->prefetch ? c->prefetch : PREFETCH_DEFAULT;
	int64_t wait_ms = c->timeout_ms < 0 ? GET_WAIT_MAX_MS : c->timeout_ms;
	uint64_t left = c->count;
	int status = CLI_DONE;

	if (batch > GET_MAX)
		batch = GET_MAX;
	while (left > 0 && status == CLI_DONE && !cli_is_ending()) {
		unsigned count;

		status = get_some(cli, c, left < batch ? (unsigned)left : batch, wait_ms,
				  &count);
		left -= count;
		if (count == 0 && c->timeout_ms >= 0)
			break;
	}
	return status;
}

static int subscribe(struct cli *cli, const struct consuming *c)
{
	const struct tidemq_subscription sub = {
		.queue = cli->words[0],
		.sid = SID,
		.prefetch = c->prefetch,
		.auto_ack = c->is_auto,
		.ack_timeout_ms = c->ack_timeout_ms,
		.priority = c->priority,
		.notify_lease_ms = c->notify_lease_ms,
		.exclusive = c->is_exclusive,
		.group = c->group,
		.from = c->from,
		.has_partition = c->has_partition,
		.partition = c->partition,
	};

	cli_catch_signals(true);
	if (tidemq_subscribe(cli->client, &sub) == TIDEMQ_OK)
		return CLI_DONE;
	return cli_client_failure(cli);
}

static int sub_endless(struct cli *cli, const struct consuming *c)
{
	enum arrival arrival = ARRIVAL_EVENT;
	int status = subscribe(cli, c);

	if (status != CLI_DONE)
		return status;
	while (status == CLI_DONE && arrival != ARRIVAL_NONE && !cli_is_ending())
		status = next(cli, c, c->timeout_ms, &arrival);
	return finish(cli, status);
}

/* A GET would not share the partitions of a topic with the members of the group. So this
 * subscribes, and is sent one message at a time: of a group, none may come that is not
 * wanted. */
static int sub_topic_counted(struct cli *cli, const struct consuming *options)
{
	struct consuming c = *options;
	enum arrival arrival = ARRIVAL_EVENT;
	int status;

	if (c.group)
		c.prefetch = 1;
	status = subscribe(cli, &c);
	if (status != CLI_DONE)
		return status;
	for (uint64_t left = c.count; left > 0 && status == CLI_DONE &&
				      arrival != ARRIVAL_NONE && !cli_is_ending();) {
		c.is_last = left == 1;
		status = next(cli, &c, c.timeout_ms, &arrival);
		left -= arrival == ARRIVAL_MESSAGE;
	}
	return finish(cli, status);
}

static bool is_topic(struct cli *cli)
{
	struct tidemq_reply reply;
	bool is_topic = false;
	json_t *stats;

	buf_append_text(&cli->request, "STATS");
	cli_add_word(cli, cli->words[0]);
	/* GET refuses a missing queue with better words. */
	if (cli->status == CLI_DONE &&
	    tidemq_request(cli->client, buf_cstr(&cli->request), NULL, 0, &reply) ==
		    TIDEMQ_OK) {
		stats = json_loadb(reply.text, reply.len, 0, NULL);
		is_topic = json_object_get(stats, "topic") != NULL;
		json_decref(stats);
	}
	return is_topic;
}

static struct consuming read_options(const struct cli *cli)
{
	return (struct consuming){ .format = cli_get(cli, "format"),
				   .group = cli_get(cli, "group"),
				   .from = cli_get(cli, "from"),
				   .has_partition = cli_is_given(cli, "partition"),
				   .partition = (unsigned)cli_number(cli, "partition"),
				   .is_auto = strcmp(cli_get(cli, "ack"), "auto") == 0,
				   .ack_timeout_ms =
					   (int64_t)cli_number(cli, "ack-timeout"),
				   .is_piped = narrow_pipe() };
}

/* Read the broker's answer to a subscription; with --count the messages are taken by
 * GET. */
static int read_subscription(struct cli *cli, struct consuming *c)
{
	const char *priority = cli_get(cli, "priority");
	char *end;

	c->notify_lease_ms = (int64_t)cli_number(cli, "notify-lease");
	c->is_exclusive = cli_is_given(cli, "exclusive");
	if ((priority || c->notify_lease_ms || c->is_exclusive) && c->count > 0)
		return cli_usage_error(cli, "--count takes none of --exclusive, "
					    "--notify-lease and --priority");
	if (c->count > 0 && c->group && c->is_auto)
		return cli_usage_error(cli,
				       "--count of a group does not take --ack auto");
	if (c->notify_lease_ms && c->is_auto)
		return cli_usage_error(cli, "--notify-lease needs --ack manual");
	if (c->count > 0 && cli_is_given(cli, "reconnect"))
		return cli_usage_error(cli, "--count does not take --reconnect");
	if (!priority)
		return CLI_DONE;
	c->priority = (int)strtol(priority, &end, 10);
	if (end == priority || *end || c->priority < -1000 || c->priority > 1000)
		return cli_usage_error(cli, "--priority must be -1000 to 1000, not '%s'",
				       priority);
	return CLI_DONE;
}

static int run_sub(struct cli *cli)
{
	struct tidemq_options options = { .heartbeat_ms = HEARTBEAT_MS };
	struct consuming c = read_options(cli);

	c.count = cli_number(cli, "count");
	c.prefetch = (unsigned)cli_number(cli, "prefetch");
	c.timeout_ms = -1;
	if (cli_is_given(cli, "timeout"))
		c.timeout_ms = (int64_t)cli_number(cli, "timeout");
	if (read_subscription(cli, &c) != CLI_DONE)
		return CLI_USAGE;
	options.events = true;
	if (cli_connect(cli, &options) != CLI_DONE)
		return CLI_FAILED;
	if (c.count == 0)
		return sub_endless(cli, &c);
	return is_topic(cli) ? sub_topic_counted(cli, &c) : sub_counted(cli, &c);
}

static int run_get(struct cli *cli)
{
	struct consuming c = read_options(cli);
	unsigned count;

	c.nack = cli_is_given(cli, "nack");
	c.reason = cli_get(cli, "reason");
	c.match = cli_get(cli, "match");
	c.offset = cli_get(cli, "offset");
	if (c.reason && !c.nack)
		return cli_usage_error(cli, "--reason needs --nack");
	if (cli_connect(cli, NULL) != CLI_DONE)
		return CLI_FAILED;
	return get_some(cli, &c, (unsigned)cli_number(cli, "max"),
			(int64_t)cli_number(cli, "wait"), &count);
}

#define OPTION_ACK                                                              \
	{                                                                       \
		COMMAND_CHOICE("ack", "manual|auto", "manual",                  \
			       "manual: ack when printed; auto: ack when sent") \
	}
#define OPTION_FORMAT                                             \
	{                                                         \
		COMMAND_TEXT("format", "FORMAT", FORMAT_DEFAULT,  \
			     "how to print a message, see above") \
	}

#define OPTION_ACK_TIMEOUT                                                      \
	{                                                                       \
		COMMAND_DURATION("ack-timeout", NULL,                           \
				 "how long to hold a message at most, instead " \
				 "of what the queue says",                      \
				 10, 24 * 3600 * 1000)                          \
	}

#define OPTION_GROUP                                                          \
	{                                                                     \
		COMMAND_TEXT("group", "GROUP", NULL,                          \
			     "of a topic: go on where this group has got to") \
	}
#define OPTION_FROM                                                                    \
	{                                                                              \
		COMMAND_TEXT("from", "POSITION", NULL,                                 \
			     "of a topic: where to begin, unless the group has begun") \
	}
#define OPTION_PARTITION(help)                                    \
	{                                                         \
		COMMAND_NUMBER("partition", NULL, help, 0, 65535) \
	}
#define TOPIC_HELP                                                      \
	"A topic without --group is read by you alone, and nothing is " \
	"committed.\n" CLI_POSITION_HELP

/* clang-format off */
static const struct option_row sub_options[] = {
	OPTION_ACK,
	OPTION_ACK_TIMEOUT,
	OPTION_FORMAT,
	OPTION_GROUP,
	OPTION_FROM,
	OPTION_PARTITION("of a topic, without --group: this one alone"),
	{ COMMAND_NUMBER("count", NULL, "end after N messages", 1, 0) },
	{ COMMAND_FLAG("exclusive", "fail if the queue has another subscription, and keep others out") },
	{ COMMAND_DURATION("notify-lease", NULL, "say on standard error so long before a lease ends", 10, 24 * 3600 * 1000) },
	{ COMMAND_NUMBER("prefetch", NULL, "1-65535: unacknowledged messages at most", 1, 65535) },
	{ COMMAND_TEXT("priority", "N", NULL, "-1000 to 1000: higher is served first among the consumers") },
	CLI_OPTION_RECONNECT,
	{ COMMAND_DURATION("timeout", NULL, "end after this long without a message, 1h at most", 0, GET_WAIT_MAX_MS) },
	{ .name = NULL },
};
/* clang-format on */

/* clang-format off */
static const struct option_row get_options[] = {
	OPTION_ACK,
	OPTION_ACK_TIMEOUT,
	OPTION_FORMAT,
	OPTION_GROUP,
	OPTION_FROM,
	OPTION_PARTITION("of a topic: read this one, and leave no trace"),
	{ COMMAND_TEXT("offset", "POSITION", NULL, "with --partition: where to begin") },
	{ COMMAND_TEXT("match", "WHAT", NULL, "only those that match, see above") },
	{ COMMAND_NUMBER("max", "1", "1-1000: how many at most", 1, 1000) },
	{ COMMAND_DURATION("wait", "0", "how long to wait for the first", 0, 0) },
	{ COMMAND_FLAG("nack", "reject them: the retry script of the queue decides") },
	{ COMMAND_TEXT("reason", "TEXT", NULL, "with --nack: why, for whoever gets them next") },
	{ .name = NULL },
};
/* clang-format on */

const struct cli_verb cli_consume_verbs[] = {
	{ .name = "sub",
	  .summary = "print the messages of a queue or a topic as they arrive",
	  .usage = "[options] QUEUE|TOPIC",
	  .details = TOPIC_HELP "\n" FORMAT_HELP,
	  .examples = "  tidemq sub jobs --count 1\n"
		      "  tidemq sub events --group billing --timeout 1s\n",
	  .options = sub_options,
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_sub },
	{ .name = "get",
	  .summary = "take messages from queues, or from a topic, and print them",
	  .usage = "[options] QUEUE... | --group GROUP TOPIC | --partition N TOPIC",
	  .details = "The first QUEUE is the most urgent one: its messages come "
		     "first.\n" TOPIC_HELP "\n" FORMAT_HELP "\n\n" CLI_MATCH_HELP,
	  .examples = "  tidemq get jobs --max 10 --wait 1s\n"
		      "  tidemq get events --group billing --from first\n"
		      "  tidemq get events --partition 0 --offset first --max 5\n",
	  .options = get_options,
	  .words_min = 1,
	  .words_max = GET_QUEUES_MAX,
	  .run = run_get },
	{ .name = NULL },
};
