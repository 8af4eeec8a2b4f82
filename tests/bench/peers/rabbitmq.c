/* RabbitMQ, AMQP 0-9-1: publisher confirms, persistent messages, acks with
 * `multiple`. Variant "quorum": a quorum queue instead of a classic one. A topic is a
 * stream, read from its first message on; AMQP has no groups for those, and each consumer
 * reads for itself. */
#include <stdlib.h>
#include <string.h>

#include "peer.h"

enum {
	FRAME_METHOD = 1,
	FRAME_HEADER = 2,
	FRAME_BODY = 3,
	FRAME_HEARTBEAT = 8,
	FRAME_END = 0xce
};

static void put8(struct buf *b, unsigned n)
{
	buf_append_char(b, (char)n);
}

static void put16(struct buf *b, unsigned n)
{
	put8(b, n >> 8);
	put8(b, n & 255);
}

static void put32(struct buf *b, uint32_t n)
{
	put16(b, n >> 16);
	put16(b, n & 65535);
}

static void put64(struct buf *b, uint64_t n)
{
	put32(b, (uint32_t)(n >> 32));
	put32(b, (uint32_t)n);
}

static void put_short(struct buf *b, const char *s)
{
	put8(b, (unsigned)strlen(s));
	buf_append_text(b, s);
}

static void put_long(struct buf *b, const char *s, size_t len)
{
	put32(b, (uint32_t)len);
	buf_append(b, s, len);
}

static uint64_t get(const char *at, unsigned bytes)
{
	uint64_t n = 0;

	while (bytes-- > 0)
		n = n << 8 | (unsigned char)*at++;
	return n;
}

/* A method frame is written with a length to be filled in. */
static size_t method_begin(struct link *l, unsigned channel, unsigned class_id,
			   unsigned method)
{
	put8(&l->out, FRAME_METHOD);
	put16(&l->out, channel);
	put32(&l->out, 0);
	put16(&l->out, class_id);
	put16(&l->out, method);
	return l->out.end - 4;
}

static void method_end(struct link *l, size_t start)
{
	uint32_t len = (uint32_t)(l->out.end - start);
	char *at = l->out.data + start - 4;

	at[0] = (char)(len >> 24);
	at[1] = (char)(len >> 16);
	at[2] = (char)(len >> 8);
	at[3] = (char)len;
	put8(&l->out, FRAME_END);
}

/* The next whole frame of l->in; 0 when there is none. */
static size_t frame(struct link *l, const char **payload, size_t *len, unsigned *type)
{
	struct slice s = buf_slice(&l->in);

	if (s.len < 8)
		return 0;
	*len = get(s.data + 3, 4);
	if (s.len < *len + 8)
		return 0;
	*type = (unsigned char)s.data[0];
	*payload = s.data + 7;
	return *len + 8;
}

static void expect(struct link *l, unsigned class_id, unsigned method)
{
	const char *p;
	size_t len, used;
	unsigned type;

	link_flush(l);
	while ((used = frame(l, &p, &len, &type)) == 0)
		link_read(l);
	if (type != FRAME_METHOD || get(p, 2) != class_id || get(p + 2, 2) != method)
		die("rabbitmq: %u.%u expected, not %u.%u: %.*s", class_id, method,
		    (unsigned)get(p, 2), (unsigned)get(p + 2, 2),
		    (int)(len > 7 ? len - 7 : 0), p + 7);
	buf_consume(&l->in, used);
}

static void handshake(struct link *l)
{
	size_t at;

	buf_append(&l->out, "AMQP\0\0\x09\x01", 8);
	expect(l, 10, 10);
	at = method_begin(l, 0, 10, 11);
	put32(&l->out, 0);
	put_short(&l->out, "PLAIN");
	put_long(&l->out, "\0guest\0guest", 12);
	put_short(&l->out, "en_US");
	method_end(l, at);
	expect(l, 10, 30);
	at = method_begin(l, 0, 10, 31);
	put16(&l->out, 16);
	put32(&l->out, 131072);
	put16(&l->out, 0);
	method_end(l, at);
	at = method_begin(l, 0, 10, 40);
	put_short(&l->out, "/");
	put_short(&l->out, "");
	put8(&l->out, 0);
	method_end(l, at);
	expect(l, 10, 41);
	at = method_begin(l, 1, 20, 10);
	put_short(&l->out, "");
	method_end(l, at);
	expect(l, 20, 11);
}

/* A table of one text. */
static void put_argument(struct link *l, const char *name, const char *value)
{
	put32(&l->out, (uint32_t)(1 + strlen(name) + 1 + 4 + strlen(value)));
	put_short(&l->out, name);
	put8(&l->out, 'S');
	put_long(&l->out, value, strlen(value));
}

static void setup(struct link *l)
{
	const struct load_options *o = l->load->options;
	const char *type = o->is_topic     ? "stream"
			   : o->variant[0] ? o->variant
					   : "classic";
	size_t at;

	handshake(l);
	at = method_begin(l, 1, 50, 40); /* queue.delete */
	put16(&l->out, 0);
	put_short(&l->out, "bench");
	put8(&l->out, 0);
	method_end(l, at);
	expect(l, 50, 41);
	at = method_begin(l, 1, 50, 10); /* queue.declare, durable */
	put16(&l->out, 0);
	put_short(&l->out, "bench");
	put8(&l->out, 2);
	put_argument(l, "x-queue-type", type);
	method_end(l, at);
	expect(l, 50, 11);
}

static void open_link(struct link *l)
{
	size_t at;

	handshake(l);
	if (l->role == LINK_PRODUCER) {
		at = method_begin(l, 1, 85, 10); /* confirm.select */
		put8(&l->out, 0);
		method_end(l, at);
		expect(l, 85, 11);
		return;
	}
	at = method_begin(l, 1, 60, 10); /* basic.qos */
	put32(&l->out, 0);
	put16(&l->out, l->load->options->prefetch);
	put8(&l->out, 0);
	method_end(l, at);
	expect(l, 60, 11);
	at = method_begin(l, 1, 60, 20); /* basic.consume */
	put16(&l->out, 0);
	put_short(&l->out, "bench");
	put_short(&l->out, "c");
	put8(&l->out, 0);
	if (l->load->options->is_topic)
		put_argument(l, "x-stream-offset", "first");
	else
		put32(&l->out, 0);
	method_end(l, at);
	expect(l, 60, 21);
}

static void publish(struct link *l, const char *payload, size_t len)
{
	size_t at = method_begin(l, 1, 60, 40);

	put16(&l->out, 0);
	put_short(&l->out, "");
	put_short(&l->out, "bench");
	put8(&l->out, 0);
	method_end(l, at);
	put8(&l->out, FRAME_HEADER);
	put16(&l->out, 1);
	put32(&l->out, 15);
	put16(&l->out, 60);
	put16(&l->out, 0);
	put64(&l->out, len);
	put16(&l->out, 0x1000); /* delivery-mode */
	put8(&l->out, 2);       /* persistent */
	put8(&l->out, FRAME_END);
	put8(&l->out, FRAME_BODY);
	put16(&l->out, 1);
	put32(&l->out, (uint32_t)len);
	buf_append(&l->out, payload, len);
	put8(&l->out, FRAME_END);
}

static void take_method(struct link *l, const char *p)
{
	unsigned id = (unsigned)get(p, 2) << 16 | (unsigned)get(p + 2, 2);

	if (id == (60 << 16 | 80)) { /* basic.ack: a confirm */
		uint64_t tag = get(p + 4, 8);

		if (p[12] & 1)
			load_confirmed(l, tag > l->confirmed ? tag - l->confirmed : 0);
		else
			load_confirmed_one(l, tag - 1);
	} else if (id == (60 << 16 | 60)) { /* basic.deliver */
		l->state[0] = get(p + 4 + 1 + (unsigned char)p[4], 8);
	} else {
		die("rabbitmq: unexpected method %u.%u: %.60s", id >> 16, id & 65535,
		    p + 7);
	}
}

static void input(struct link *l)
{
	const char *p;
	size_t len, used;
	unsigned type;

	while ((used = frame(l, &p, &len, &type)) != 0) {
		if (type == FRAME_METHOD)
			take_method(l, p);
		else if (type == FRAME_BODY)
			load_received(l, p, len);
		buf_consume(&l->in, used);
	}
}

static void settle(struct link *l)
{
	size_t at;

	if (l->state[0] == l->state[1])
		return;
	at = method_begin(l, 1, 60, 80);
	put64(&l->out, l->state[0]);
	put8(&l->out, 1); /* multiple */
	method_end(l, at);
	l->state[1] = l->state[0];
}

const struct driver driver_rabbitmq = { "rabbitmq", 5672,  setup, open_link,
					publish,    input, settle };
