/* STOMP 1.2: tidemq, and RabbitMQ with its plugin. Each publish asks for a receipt; an
 * ACK is for all messages up to one. */
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define MARK "the queue is empty behind this"

struct frame {
	struct slice head, body;
	size_t len; /* with its NUL */
};

static struct slice header(struct slice head, const char *name)
{
	const char *at = memmem(head.data, head.len, name, strlen(name));
	struct slice rest;

	if (!at)
		return SLICE("");
	rest = slice_skip(head, (size_t)(at - head.data) + strlen(name));
	return slice_cut(&rest, '\n');
}

/* The next frame; false when it is not there yet. */
static bool next_frame(struct link *l, struct frame *f)
{
	struct slice s;
	const char *end;
	uint64_t len;

	while (buf_len(&l->in) > 0 && *buf_slice(&l->in).data == '\n')
		buf_consume(&l->in, 1);
	s = buf_slice(&l->in);
	end = s.len ? memmem(s.data, s.len, "\n\n", 2) : NULL;
	if (!end)
		return false;
	f->head = (struct slice){ s.data, (size_t)(end - s.data) + 1 };
	s = slice_skip(s, f->head.len + 1);
	if (!slice_to_uint(header(f->head, "\ncontent-length:"), UINT32_MAX, &len))
		len = slice_find(s, '\0');
	if (len >= s.len)
		return false;
	f->body = (struct slice){ s.data, (size_t)len };
	f->len = f->head.len + 1 + (size_t)len + 1;
	if (slice_has_prefix(f->head, "ERROR"))
		die("%.*s", (int)f->len, f->head.data);
	return true;
}

static void expect(struct link *l, struct frame *f)
{
	link_flush(l);
	while (!next_frame(l, f))
		link_read(l);
}

static void connect(struct link *l)
{
	static const char text[] = "CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\n"
				   "passcode:guest\n\n";
	struct frame f;

	buf_append(&l->out, text, sizeof(text));
	expect(l, &f);
	buf_consume(&l->in, f.len);
}

/* What is there is read, up to a message of ours. */
static void setup(struct link *l)
{
	static const char text[] = "SUBSCRIBE\nid:0\ndestination:/queue/bench\n\n\0"
				   "SEND\ndestination:/queue/bench\n\n" MARK;
	struct frame f;

	connect(l);
	buf_append(&l->out, text, sizeof(text));
	do {
		expect(l, &f);
		buf_consume(&l->in, f.len);
	} while (!slice_is(f.body, MARK));
	buf_append(&l->out, "DISCONNECT\nreceipt:1\n\n", 23);
	expect(l, &f);
}

static void open_link(struct link *l)
{
	connect(l);
	if (l->role != LINK_CONSUMER)
		return;
	buf_printf(&l->out,
		   "SUBSCRIBE\nid:0\ndestination:/queue/bench\nack:client\n"
		   "prefetch-count:%u\n\n",
		   l->load->options->prefetch);
	buf_append_char(&l->out, '\0');
	link_flush(l);
}

static void publish(struct link *l, const char *payload, size_t len)
{
	buf_append_text(&l->out, "SEND\ndestination:/queue/bench\npersistent:true\n"
				 "content-length:");
	buf_append_uint(&l->out, len);
	buf_append_text(&l->out, "\nreceipt:");
	buf_append_uint(&l->out, l->state[0]++);
	buf_append_text(&l->out, "\n\n");
	buf_append(&l->out, payload, len);
	buf_append_char(&l->out, '\0');
}

static void input(struct link *l)
{
	struct frame f;
	uint64_t number;

	while (next_frame(l, &f)) {
		if (slice_has_prefix(f.head, "MESSAGE")) {
			buf_clear(&l->scratch);
			buf_append_slice(&l->scratch, header(f.head, "\nack:"));
			load_received(l, f.body.data, f.body.len);
		} else if (l->role == LINK_PRODUCER &&
			   slice_to_uint(header(f.head, "\nreceipt-id:"), UINT64_MAX,
					 &number)) {
			load_confirmed_one(l, number);
		}
		buf_consume(&l->in, f.len);
	}
}

static void settle(struct link *l)
{
	if (buf_len(&l->scratch) == 0)
		return;
	buf_append_text(&l->out, "ACK\nid:");
	buf_append_slice(&l->out, buf_slice(&l->scratch));
	buf_append(&l->out, "\n\n", 3);
	buf_clear(&l->scratch);
}

const struct driver driver_stomp = { "stomp", 7310,  setup, open_link,
				     publish, input, settle };
