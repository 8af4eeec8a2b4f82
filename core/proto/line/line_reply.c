/* The other direction of the line protocol: replies, messages and events. */
#include "base/hex.h"
#include "base/id.h"
#include "base/percent.h"
#include "line.h"

static char *put_text(char *at, const char *text, size_t len)
{
	memcpy(at, text, len);
	return at + len;
}

#define PUT(at, literal) put_text(at, literal, sizeof(literal) - 1)

static char *put_channel(char *at, unsigned channel)
{
	if (channel == 0)
		return at;
	*at++ = '@';
	at = decimal_put(at, channel);
	*at++ = ' ';
	return at;
}

static char *put_word(char *at, struct slice s)
{
	if (s.len == 0)
		*at++ = '-';
	return put_text(at, s.data, s.len);
}

/* Attempts and partitions have mostly one digit. */
static inline char *put_small(char *at, uint64_t n)
{
	if (n > 9)
		return decimal_put(at, n);
	*at = (char)('0' + n);
	return at + 1;
}

/* What a line without names takes at most, with room to spare. */
#define LINE_SMALL 128

/* A line begins in a room of `len` bytes, into which something is put up to `at`. */
static char *begin_line(struct line *l, unsigned channel, size_t len)
{
	return put_channel(out_reserve(l->base.out, len), channel);
}

static void put_line(struct line *l, const char *at)
{
	const struct out_chunk *c = l->base.out->last;

	out_grow(l->base.out, (size_t)(at - (c->bytes + c->end)));
}

/* The line ends in the text, whatever its length is. */
static void end_line(struct line *l, const char *at, struct slice text)
{
	put_line(l, at);
	out_append_slice(l->base.out, text);
	out_append(l->base.out, "\r\n", 2);
}

/* Percent-encoded, with lower-case digits. */
static void append_encoded(struct out *o, struct slice s)
{
	size_t run;

	while ((run = percent_plain_len(s)) < s.len) {
		unsigned char c = (unsigned char)s.data[run];
		const char code[3] = { '%', hex_digit(c >> 4), hex_digit(c) };

		out_append(o, s.data, run);
		out_append(o, code, sizeof(code));
		s = slice_skip(s, run + 1);
	}
	out_append_slice(o, s);
}

static void append_headers(struct out *o, const struct msg *m)
{
	for (unsigned i = 0; i < m->header_count; i++) {
		out_append(o, " h:", 3);
		out_append_slice(o, m->headers[i].name);
		out_append(o, "=", 1);
		append_encoded(o, m->headers[i].value);
	}
}

/* Always as many bytes as a number may have, whose copy needs no call. */
static char *put_ts(struct line *l, char *at, int64_t ts_unix_ms)
{
	if (l->ts_unix_ms != ts_unix_ms || l->ts_len == 0) {
		l->ts_unix_ms = ts_unix_ms;
		l->ts_len = (uint8_t)(decimal_put(l->ts_text, (uint64_t)ts_unix_ms) -
				      l->ts_text);
	}
	memcpy(at, l->ts_text, sizeof(l->ts_text));
	return at + l->ts_len;
}

/* A payload up to this size is copied with its line, in one piece. */
#define PAYLOAD_SMALL 1024

static void message(struct line *l, unsigned channel, struct slice sid,
		    const struct delivery *d)
{
	const struct msg *m = d->msg;
	size_t small_len = m->payload_len <= PAYLOAD_SMALL ? m->payload_len + 2 : 0;
	char *at = begin_line(l, channel,
			      sid.len + m->exchange.len + m->key.len + 2 * LINE_SMALL +
				      small_len);

	at = PUT(at, "MSG ");
	at = put_word(at, sid);
	*at++ = ' ';
	if (d->tag)
		at = decimal_put(at, d->tag);
	else
		*at++ = '-';
	*at++ = ' ';
	at = put_small(at, d->attempt);
	*at++ = ' ';
	at = put_word(at, m->exchange);
	*at++ = ' ';
	at = put_word(at, m->key);
	at = PUT(at, " id=");
	id_format(m->id, at);
	at += ID_HEX_LEN;
	at = PUT(at, " ts=");
	at = put_ts(l, at, m->ts_unix_ms);
	if (m->priority) {
		at = PUT(at, " pri=");
		at = decimal_put(at, m->priority);
	}
	if (d->has_offset) {
		at = PUT(at, " partition=");
		at = put_small(at, d->partition);
		at = PUT(at, " offset=");
		at = decimal_put(at, d->offset);
	}
	if (d->is_redelivered)
		at = PUT(at, " redelivered");
	if (reply_head(d)->header_count) {
		put_line(l, at);
		append_headers(l->base.out, reply_head(d));
		at = out_reserve(l->base.out, LINE_SMALL + small_len);
	}
	*at++ = ' ';
	at = decimal_put(at, m->payload_len);
	at = PUT(at, "\r\n");
	if (small_len) {
		at = put_text(at, m->payload, m->payload_len);
		at = PUT(at, "\r\n");
		put_line(l, at);
		return;
	}
	put_line(l, at);
	out_append_payload(l->base.out, (struct msg *)m);
	out_append(l->base.out, "\r\n", 2);
}

static void error_line(struct line *l, unsigned channel, int code, const char *text)
{
	char *at = begin_line(l, channel, LINE_SMALL);
	const char *wire = error_wire_code(code);

	at = PUT(at, "ERR ");
	at = put_text(at, wire, strlen(wire));
	*at++ = ' ';
	end_line(l, at, slice_from(text));
}

static void data(struct line *l, unsigned channel, const struct buf *text)
{
	char *at = begin_line(l, channel, LINE_SMALL);

	at = PUT(at, "DATA ");
	at = decimal_put(at, buf_len(text));
	at = PUT(at, "\r\n");
	end_line(l, at, buf_slice(text));
}

static void ok(struct line *l, unsigned channel, const struct reply *r)
{
	char *at = begin_line(l, channel, LINE_SMALL);

	at = PUT(at, "OK");
	if (r->kind == REPLY_PUBLISHED) {
		*at++ = ' ';
		id_format(r->id, at);
		at += ID_HEX_LEN;
	}
	if (r->kind != REPLY_OK) {
		*at++ = ' ';
		at = decimal_put(at, r->count);
	}
	if (r->kind == REPLY_COUNTS) {
		*at++ = ' ';
		at = decimal_put(at, r->id);
	}
	if (r->is_duplicate)
		at = PUT(at, " duplicate");
	if (r->has_offset) {
		*at++ = ' ';
		at = decimal_put(at, r->partition);
		*at++ = ':';
		at = decimal_put(at, r->offset);
	}
	/* Of one that took it, the place says that it is a topic. */
	if (r->has_offset && r->count > 1) {
		at = PUT(at, " topics=");
		at = decimal_put(at, r->topics);
	}
	at = PUT(at, "\r\n");
	put_line(l, at);
}

static void on_reply(void *ctx, unsigned channel, struct reply *r)
{
	struct line *l = ctx;
	size_t before = l->base.out->bytes, shared = 0;

	if (r->kind == REPLY_ERROR)
		error_line(l, channel, r->error, r->text);
	else if (r->kind == REPLY_DATA)
		data(l, channel, &r->data);
	else if (r->kind == REPLY_TEXT)
		end_line(l, PUT(begin_line(l, channel, LINE_SMALL), "OK "),
			 slice_from(r->text));
	else
		ok(l, channel, r);
	for (uint64_t i = 0; r->kind == REPLY_MESSAGES && i < r->count; i++) {
		const struct delivery *d = &r->deliveries[i];

		message(l, channel, SLICE("-"), d);
		shared += reply_is_alone(d) ? 0 : d->msg->payload_len;
	}
	if (r->kind == REPLY_DATA || r->kind == REPLY_MESSAGES)
		session_answer_stand(l->base.session,
				     l->base.out->bytes - before - shared);
	l->base.ops->wake(l->base.ctx);
}

static void on_deliver(void *ctx, unsigned channel, struct slice sid,
		       const struct delivery *d)
{
	struct line *l = ctx;

	message(l, channel, sid, d);
	l->base.ops->wake(l->base.ctx);
}

void line_reply_event(struct line *l, unsigned channel, const char *what,
		      const char *words)
{
	char *at = begin_line(l, channel, LINE_SMALL);

	at = PUT(at, "EVT ");
	at = put_text(at, what, strlen(what));
	if (words[0])
		*at++ = ' ';
	end_line(l, at, slice_from(words));
	l->base.ops->wake(l->base.ctx);
}

void line_reply_error(struct line *l, unsigned channel, const struct error *err)
{
	struct channel *ch = session_channel(l->base.session, channel);

	if (!ch)
		ch = session_closing_channel(l->base.session, channel);
	if (ch) {
		reply_error(reply_create(ch, false), err);
		return;
	}
	error_line(l, channel, err->code, err->text);
	l->base.ops->wake(l->base.ctx);
}

static void on_event(void *ctx, unsigned channel, const char *what, const char *words)
{
	line_reply_event(ctx, channel, what, words);
}

static void on_blocked(void *ctx, bool is_blocked, const char *why)
{
	struct line *l = ctx;

	if (is_blocked != l->is_told_blocked)
		line_reply_event(l, 0, is_blocked ? "blocked" : "unblocked",
				 is_blocked ? why : "");
	l->is_told_blocked = is_blocked;
	if (!is_blocked)
		l->base.ops->wake(l->base.ctx);
}

static void on_kill(void *ctx, const char *why)
{
	struct line *l = ctx;

	line_reply_event(l, 0, "closed", why);
	l->state = LINE_CLOSED;
	l->base.ops->kill(l->base.ctx);
}

const struct session_ops line_reply_ops = {
	.on_reply = on_reply,
	.on_deliver = on_deliver,
	.on_event = on_event,
	.on_progress = protocol_on_progress,
	.can_take = protocol_can_take,
	.on_blocked = on_blocked,
	.on_kill = on_kill,
	.describe = protocol_describe,
	.facts = protocol_facts,
};
