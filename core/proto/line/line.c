#include "line.h"

#include "base/container.h"
#include "base/duration.h"
#include "base/bytes.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/percent.h"
#include "request.h"

/* The other direction of the line protocol: replies, messages and events. */

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
	return out_put(at, s.data, s.len);
}

/* Attempts and partitions have mostly one digit. */
static inline char *put_small(char *at, uint64_t n)
{
	if (n > 9)
		return decimal_put(at, n);
	*at = (char)('0' + n);
	return at + 1;
}

/* The bytes that a line without names takes at most, with room to spare. */
#define LINE_SMALL 128

/* A line begins in a room of `len` bytes, into which something is put up to `at`. */
static char *begin_line(struct line *l, unsigned channel, size_t len)
{
	return put_channel(out_reserve(l->base.out, len), channel);
}

/* The line ends in the text, whatever its length is. */
static void end_line(struct line *l, const char *at, struct slice text)
{
	out_grow_to(l->base.out, at);
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
		if (msg_header_is_hidden(m->headers[i].name))
			continue;
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
		out_grow_to(l->base.out, at);
		append_headers(l->base.out, reply_head(d));
		at = out_reserve(l->base.out, LINE_SMALL + small_len);
	}
	*at++ = ' ';
	at = decimal_put(at, m->payload_len);
	at = PUT(at, "\r\n");
	if (small_len) {
		at = out_put(at, m->payload, m->payload_len);
		at = PUT(at, "\r\n");
		out_grow_to(l->base.out, at);
		return;
	}
	out_grow_to(l->base.out, at);
	out_append_payload(l->base.out, (struct msg *)m);
	out_append(l->base.out, "\r\n", 2);
}

static void error_line(struct line *l, unsigned channel, int code, const char *text)
{
	char *at = begin_line(l, channel, LINE_SMALL);
	const char *wire = error_wire_code(code);

	at = PUT(at, "ERR ");
	at = out_put(at, wire, strlen(wire));
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
	out_grow_to(l->base.out, at);
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

/* EVT <what> <words>; `words` may be "". */
static void on_event(void *ctx, unsigned channel, const char *what, const char *words)
{
	struct line *l = ctx;
	char *at = begin_line(l, channel, LINE_SMALL);

	at = PUT(at, "EVT ");
	at = out_put(at, what, strlen(what));
	if (words[0])
		*at++ = ' ';
	end_line(l, at, slice_from(words));
	l->base.ops->wake(l->base.ctx);
}

static void refuse_request(struct line *l, unsigned channel, const struct error *err)
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

static void on_blocked(void *ctx, bool is_blocked, const char *why)
{
	struct line *l = ctx;

	if (is_blocked != l->is_told_blocked)
		on_event(l, 0, is_blocked ? "blocked" : "unblocked",
			 is_blocked ? why : "");
	l->is_told_blocked = is_blocked;
	if (!is_blocked)
		l->base.ops->wake(l->base.ctx);
}

static void on_kill(void *ctx, const char *why)
{
	struct line *l = ctx;

	on_event(l, 0, "closed", why);
	l->state = LINE_CLOSED;
	l->base.ops->kill(l->base.ctx);
}

static const struct session_ops line_session_ops = {
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

static void lose(struct line *l, unsigned channel, const struct error *err)
{
	refuse_request(l, channel, err);
	l->state = LINE_CLOSED;
	l->base.ops->finish(l->base.ctx);
}

static void publish(struct line *l)
{
	struct channel *ch = session_channel(l->base.session, l->channel);
	struct msg *m = l->base.msg;

	protocol_received(&l->base);
	l->base.msg = NULL;
	l->state = LINE_COMMAND;
	if (!ch) {
		/* The channel was there when the line came; it cannot have closed
		 * since. */
		msg_unref(m);
		return;
	}
	session_publish_take(l->base.session, m, &l->demand,
			     reply_create(ch, l->is_quiet));
}

/* The line end after a payload: how many bytes it has, 0 when more
 * must come, -1 when it is something else. */
static int line_end(const char *data, size_t len)
{
	size_t n = len > 0 && data[0] == '\r';

	if (n == len)
		return 0;
	return data[n] == '\n' ? (int)n + 1 : -1;
}

static size_t feed_ending(struct line *l, const char *data, size_t len)
{
	int n = line_end(data, len);
	struct error err;

	if (n < 0) {
		error_set(&err, TIDE_ESYNTAX,
			  "no line end follows the payload; check its length");
		lose(l, l->channel, &err);
		return 0;
	}
	if (n > 0 && l->state == LINE_PAYLOAD)
		publish(l);
	else if (n > 0)
		l->state = LINE_COMMAND;
	return (size_t)n;
}

static size_t feed_skip(struct line *l, size_t len)
{
	size_t n = len < l->skip ? len : (size_t)l->skip;

	l->skip -= n;
	if (l->skip == 0)
		l->state = LINE_SKIPPED;
	return n;
}

/* A transaction does without none of its requests, nor without one that cannot be read.
 */
static void refuse_transaction(struct line *l, const struct request *q,
			       const struct error *err)
{
	struct channel *ch = session_channel(l->base.session, q->channel);

	if (ch && (!q->name || q->features & VERB_TRANSACTED))
		session_transaction_refuse(ch, err);
}

static void refuse(struct line *l, const struct request *q, const struct error *err)
{
	refuse_transaction(l, q, err);
	refuse_request(l, q->channel, err);
	if (q->features & VERB_PAYLOAD) {
		l->channel = q->channel;
		l->skip = q->payload_len;
		l->state = l->skip ? LINE_SKIPPING : LINE_SKIPPED;
	}
}

static int check_channel(struct line *l, const struct request *q, struct error *err)
{
	if (q->features & VERB_NO_CHANNEL || session_channel(l->base.session, q->channel))
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "channel %u is not open: send @%u OPEN first", q->channel,
			 q->channel);
}

/* Once allowed, always: a session that may not go on is killed. */
static int check_login(struct line *l, const struct request *q, struct error *err)
{
	int rc;

	if (l->may_ask || q->features & VERB_NO_LOGIN)
		return TIDE_OK;
	rc = session_login_admit(l->base.session, err);
	l->may_ask = rc == TIDE_OK;
	return rc;
}

static int run(struct line *l, struct request *q)
{
	struct reply *r = NULL;
	int rc;

	/* A publish gets its reply when its payload is there. */
	if (!(q->features & (VERB_NO_CHANNEL | VERB_PAYLOAD)))
		r = reply_create(session_channel(l->base.session, q->channel),
				 q->is_quiet);
	if (q->features & VERB_DOCUMENT)
		reply_expect_document(r);
	l->is_heavy = q->features & (VERB_DOCUMENT | VERB_ANY_OPTIONS);
	if (l->is_heavy)
		session_name_request(l->base.session, NULL);
	rc = verb_run(l, q, r);
	if (l->is_heavy && l->state != LINE_CLOSED)
		session_name_request(l->base.session, q->name);
	if (rc < 0 && r) {
		refuse_transaction(l, q, q->err);
		reply_error(r, q->err);
		return TIDE_OK;
	}
	return rc;
}

/* "POST /path HTTP/1.1". A page in a browser can have such a request sent to this port;
 * the lines of its body are the page's. */
static bool is_http(struct slice line)
{
	struct slice whole = line, method = slice_cut(&line, ' '),
		     target = slice_cut(&line, ' '), rest;
	struct error ignored;
	bool is_ours = (verb_find(method) || operation_find(whole, &rest, &ignored)) &&
		       !memchr(target.data, '/', target.len);

	return slice_has_prefix(line, "HTTP/") && !is_ours;
}

static void command(struct line *l, char *line, size_t len)
{
	struct request q;
	struct error err;
	bool is_lost;
	int rc;

	if (len == 0)
		return; /* so that a person may press Enter */
	if (!l->has_asked && is_http((struct slice){ line, len })) {
		error_set(&err, TIDE_ESYNTAX,
			  "this port speaks the tidemq line protocol; HTTP is on that of "
			  "--http (by default 7311)");
		lose(l, 0, &err);
		return;
	}
	rc = request_parse(&q, line, len, &is_lost, &err);
	if (rc < 0 && is_lost) {
		lose(l, q.channel, &err);
		return;
	}
	if (rc == TIDE_OK)
		rc = check_login(l, &q, &err);
	if (rc == TIDE_OK)
		rc = check_channel(l, &q, &err);
	if (rc == TIDE_OK && q.payload_len > l->base.payload_max)
		rc = error_set(&err, TIDE_ETOOLARGE,
			       "the payload of %llu bytes exceeds the limit of %zu and "
			       "is skipped",
			       (unsigned long long)q.payload_len, l->base.payload_max);
	if (rc == TIDE_OK)
		rc = run(l, &q);
	if (rc < 0)
		refuse(l, &q, &err);
	l->has_asked = true;
}

/* A connection's first publish finds publishers held back, or a document comes too early.
 * Other requests do not wait. */
static bool must_wait(struct line *l, struct slice line)
{
	struct session *s = l->base.session;
	bool is_publish_held = session_publish_is_next_held(s);
	unsigned features;

	if (!is_publish_held && !session_answer_is_late(s))
		return false;
	features = request_features(line);
	if (features & VERB_DOCUMENT)
		return !session_answer_may_begin(s);
	if (!is_publish_held || !(features & VERB_PAYLOAD))
		return false;
	session_publish_begin(s);
	return true;
}

static size_t feed_command(struct line *l, char *data, size_t len)
{
	char *end = memchr(data, '\n', len < LINE_MAX_BYTES ? len : LINE_MAX_BYTES);
	size_t line_len;
	struct error err;

	if (!end && len >= LINE_MAX_BYTES) {
		error_set(&err, TIDE_ETOOLONG, "a line has at most %d bytes",
			  LINE_MAX_BYTES);
		lose(l, 0, &err);
		return 0;
	}
	if (!end)
		return 0;
	line_len = (size_t)(end - data);
	if (must_wait(l, (struct slice){ data, line_len }))
		return 0;
	command(l, data, line_len - (line_len > 0 && data[line_len - 1] == '\r'));
	return line_len + 1;
}

static size_t feed(struct protocol *p, char *data, size_t len)
{
	struct line *l = container_of(p, struct line, base);
	size_t at = 0;

	l->base.is_paused = false;
	l->is_heavy = false;
	session_begin(l->base.session);
	while (at < len && l->state != LINE_CLOSED) {
		size_t n;

		if (l->state == LINE_COMMAND && at > 0 &&
		    session_is_spent(p->session, l->is_heavy)) {
			l->base.is_paused = true;
			break;
		}
		if (l->state == LINE_COMMAND && protocol_is_held(p))
			break;
		if (l->state == LINE_COMMAND)
			n = feed_command(l, data + at, len - at);
		else if (l->state == LINE_PAYLOAD && !protocol_is_filled(p))
			n = protocol_fill(p, data + at, len - at);
		else if (l->state == LINE_SKIPPING)
			n = feed_skip(l, len - at);
		else
			n = feed_ending(l, data + at, len - at);
		if (n == 0)
			break;
		at += n;
	}
	protocol_count_payload(p);
	return at;
}

static void init(struct protocol *p, const struct protocol_spec *spec)
{
	struct line *l = container_of(p, struct line, base);

	*l = (struct line){ 0 };
	protocol_init(p, &line_protocol, &line_session_ops, spec);
}

static void deinit(struct protocol *p)
{
	container_of(p, struct line, base)->state = LINE_CLOSED;
	protocol_deinit(p);
}

static void tell_closed(struct protocol *p, const char *words)
{
	on_event(container_of(p, struct line, base), 0, "closed", words);
}

static void heartbeat(struct protocol *p)
{
	on_event(container_of(p, struct line, base), 0, "heartbeat", "");
}

const struct protocol_kind line_protocol = {
	.name = "line",
	.size = sizeof(struct line),
	.init = init,
	.deinit = deinit,
	.feed = feed,
	.tell_closed = tell_closed,
	.heartbeat = heartbeat,
};
