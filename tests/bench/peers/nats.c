/* NATS JetStream: a file stream with work-queue retention, a push consumer with
 * explicit acks. Confirms come as messages to an inbox that says the number. As a topic
 * the stream keeps its messages. A group is a durable push consumer that acknowledges all
 * up to a message; a reader is one without acks that answers when the server asks how far
 * it is (flow control). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

static void greet(struct link *l)
{
	link_line(l); /* INFO */
	buf_append_text(
		&l->out,
		"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true}\r\n");
}

static void request(struct link *l, const char *subject, const char *body,
		    const char *may_fail)
{
	const char *line;

	buf_printf(&l->out, "SUB _INBOX.setup.%u 9\r\nUNSUB 9 1\r\n", l->number);
	buf_printf(&l->out, "PUB %s _INBOX.setup.%u %zu\r\n%s\r\n", subject, l->number,
		   strlen(body), body);
	link_flush(l);
	do {
		line = link_line(l);
		if (strncmp(line, "PING", 4) == 0) {
			buf_append_text(&l->out, "PONG\r\n");
			link_flush(l);
		}
	} while (strncmp(line, "MSG", 3) != 0);
	line = link_line(l);
	if (strstr(line, "\"error\"") && !(may_fail && strstr(line, may_fail)))
		die("%s: %s", subject, line);
}

static void setup(struct link *l)
{
	char body[512];

	greet(l);
	request(l, "$JS.API.STREAM.DELETE.BENCH", "", "not found");
	snprintf(body, sizeof(body),
		 "{\"name\":\"BENCH\",\"subjects\":[\"bench\"],\"storage\":\"file\","
		 "\"retention\":\"%s\","
		 "\"max_msgs\":-1,\"max_bytes\":-1,\"discard\":\"old\",\"num_replicas\":"
		 "1}",
		 l->load->options->is_topic ? "limits" : "workqueue");
	request(l, "$JS.API.STREAM.CREATE.BENCH", body, NULL);
	if (l->load->options->is_topic)
		return;
	snprintf(body, sizeof(body),
		 "{\"stream_name\":\"BENCH\",\"config\":{\"durable_name\":\"c\","
		 "\"deliver_subject\":\"deliver\","
		 "\"deliver_group\":\"g\",\"ack_policy\":\"explicit\",\"max_ack_"
		 "pending\":%u,"
		 "\"ack_wait\":60000000000}}",
		 l->load->options->prefetch *
			 (l->load->options->consumers ? l->load->options->consumers : 1));
	request(l, "$JS.API.CONSUMER.DURABLE.CREATE.BENCH.c", body, NULL);
}

static void open_topic(struct link *l)
{
	const struct load_options *o = l->load->options;
	char name[16], subject[64], body[512];
	int len;

	snprintf(name, sizeof(name), "%c%u", o->is_reader ? 'r' : 'g', l->number);
	len = snprintf(body, sizeof(body),
		       "{\"stream_name\":\"BENCH\",\"config\":{\"durable_name\":\"%s\","
		       "\"deliver_subject\":\"deliver.%s\",\"deliver_policy\":\"all\",",
		       name, name);
	if (o->is_reader)
		snprintf(body + len, sizeof(body) - (size_t)len,
			 "\"ack_policy\":\"none\",\"flow_control\":true,"
			 "\"idle_heartbeat\":5000000000}}");
	else
		snprintf(body + len, sizeof(body) - (size_t)len,
			 "\"ack_policy\":\"all\",\"max_ack_pending\":%u,"
			 "\"ack_wait\":60000000000}}",
			 o->prefetch);
	if (o->is_reader) {
		snprintf(subject, sizeof(subject), "$JS.API.CONSUMER.DELETE.BENCH.%s",
			 name);
		request(l, subject, "", "not found");
	}
	snprintf(subject, sizeof(subject), "$JS.API.CONSUMER.DURABLE.CREATE.BENCH.%s",
		 name);
	request(l, subject, body, NULL);
	buf_printf(&l->out, "SUB deliver.%s 1\r\n", name);
}

static void open_link(struct link *l)
{
	greet(l);
	if (l->role == LINK_CONSUMER && l->load->options->is_topic)
		open_topic(l);
	else if (l->role == LINK_CONSUMER)
		buf_append_text(&l->out, "SUB deliver g 1\r\n");
	else
		buf_printf(&l->out, "SUB _INBOX.p%u.* 1\r\n", l->number);
}

static void publish(struct link *l, const char *payload, size_t len)
{
	buf_append(&l->out, "PUB bench _INBOX.p", 18);
	buf_append_uint(&l->out, l->number);
	buf_append_char(&l->out, '.');
	buf_append_uint(&l->out, l->published);
	buf_append_char(&l->out, ' ');
	buf_append_uint(&l->out, len);
	buf_append(&l->out, "\r\n", 2);
	buf_append(&l->out, payload, len);
	buf_append(&l->out, "\r\n", 2);
}

/* "MSG subject sid [reply] len": the words from the second on. */
static unsigned split(struct slice line, struct slice *words, unsigned max)
{
	unsigned n = 0;

	while (n < max) {
		const char *space = memchr(line.data, ' ', line.len);

		words[n].data = line.data;
		words[n].len = space ? (size_t)(space - line.data) : line.len;
		n++;
		if (!space)
			break;
		line = slice_skip(line, words[n - 1].len + 1);
	}
	return n;
}

static bool take_message(struct link *l, struct slice s, size_t line_len, size_t *used)
{
	struct slice words[6];
	unsigned n = split((struct slice){ s.data, line_len }, words, 6);
	uint64_t len;

	if (n < 4 || !slice_to_uint(words[n - 1], SIZE_MAX, &len))
		die("nats: %.*s", (int)line_len, s.data);
	if (s.len < line_len + 2 + len + 2)
		return false;
	*used = line_len + 2 + len + 2;
	if (l->role == LINK_CONSUMER && l->load->options->is_topic) {
		load_received(l, s.data + line_len + 2, len);
		buf_clear(&l->scratch);
		buf_append_slice(&l->scratch, words[3]);
	} else if (l->role == LINK_CONSUMER) {
		load_received(l, s.data + line_len + 2, len);
		buf_append(&l->out, "PUB ", 4);
		buf_append_slice(&l->out, words[3]);
		buf_append(&l->out, " 4\r\n+ACK\r\n", 10);
	} else {
		const char *dot = memrchr(words[1].data, '.', words[1].len);

		load_confirmed_one(l, strtoull(dot + 1, NULL, 10));
	}
	return true;
}

/* "HMSG subject sid reply header total": flow control, and heartbeats, whose reply may be
 * empty. */
static bool take_status(struct link *l, struct slice s, size_t line_len, size_t *used)
{
	struct slice words[6];
	unsigned n = split((struct slice){ s.data, line_len }, words, 6);
	uint64_t len;

	if (n < 5 || !slice_to_uint(words[n - 1], SIZE_MAX, &len))
		die("nats: %.*s", (int)line_len, s.data);
	if (s.len < line_len + 2 + len + 2)
		return false;
	*used = line_len + 2 + len + 2;
	if (n == 6 && words[3].len) {
		buf_append(&l->out, "PUB ", 4);
		buf_append_slice(&l->out, words[3]);
		buf_append_text(&l->out, " 0\r\n\r\n");
	}
	return true;
}

static void input(struct link *l)
{
	for (;;) {
		struct slice s = buf_slice(&l->in);
		const char *end = s.len ? memchr(s.data, '\n', s.len) : NULL;
		size_t used;

		if (!end)
			return;
		used = (size_t)(end - s.data) + 1;
		if (s.data[0] == 'M') {
			if (!take_message(l, s, used - 2, &used))
				return;
		} else if (s.data[0] == 'H') {
			if (!take_status(l, s, used - 2, &used))
				return;
		} else if (strncmp(s.data, "PING", 4) == 0) {
			buf_append_text(&l->out, "PONG\r\n");
		} else if (s.data[0] == '-') {
			die("nats: %.*s", (int)used, s.data);
		}
		buf_consume(&l->in, used);
	}
}

/* Of a queue it is done with each message: JetStream has no ranges with explicit acks. */
static void settle(struct link *l)
{
	const struct load_options *o = l->load->options;

	if (!o->is_topic || o->is_reader || l->state[0] == l->received)
		return;
	buf_append(&l->out, "PUB ", 4);
	buf_append_slice(&l->out, buf_slice(&l->scratch));
	buf_append(&l->out, " 4\r\n+ACK\r\n", 10);
	l->state[0] = l->received;
}

const struct driver driver_nats = {
	"nats", 4222, setup, open_link, publish, input, settle
};
