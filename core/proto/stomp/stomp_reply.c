#include "stomp.h"

#include "base/decimal.h"
#include "base/id.h"

/* The bytes of a MESSAGE without names and headers, with room to spare. */
#define MESSAGE_SMALL 512
/* A payload up to this size is copied with its head, in one piece. */
#define PAYLOAD_SMALL 1024
/* With a line end, as RabbitMQ's frames: PHP's client waits for it. */
#define FRAME_END "\0\n"

/* ---- escapes --------------------------------------------------------------------- */

static void append_escaped(struct out *o, struct slice s, enum stomp_version version)
{
	const char *code = NULL;
	size_t run;

	while (s.len > 0) {
		for (run = 0; run < s.len; run++)
			if ((code = stomp_frame_escape_of((unsigned char)s.data[run],
							  version)) != NULL)
				break;
		out_append(o, s.data, run);
		if (run == s.len)
			return;
		out_append_slice(o, slice_from(code));
		s = slice_skip(s, run + 1);
	}
}

/* A part of a destination: its '/' and '%' are encoded. Up to three times as long. */
static char *put_name(char *at, struct slice s, enum stomp_version version)
{
	/* Few names have one of these. */
	static const bool is_marked[256] = {
		['\0'] = true, ['\n'] = true, ['\r'] = true, ['%'] = true,
		['/'] = true,  [':'] = true,  ['\\'] = true,
	};

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.data[i];
		const char *code;

		if (!is_marked[c])
			*at++ = (char)c;
		else if (c == '/')
			at = PUT(at, "%2F");
		else if (c == '%')
			at = PUT(at, "%25");
		else if ((code = stomp_frame_escape_of(c, version)) != NULL)
			at = out_put(at, code, strlen(code));
		else
			*at++ = (char)c;
	}
	return at;
}

/* ---- frames ----------------------------------------------------------------------- */

static char *put_destination(char *at, const struct msg *m, enum stomp_version version)
{
	at = PUT(at, "destination:");
	if (m->exchange.len == 0)
		return put_name(PUT(at, "/queue/"), m->key, version);
	if (slice_is(m->exchange, STOMP_TOPIC_EXCHANGE))
		return put_name(PUT(at, "/topic/"), m->key, version);
	at = put_name(PUT(at, "/exchange/"), m->exchange, version);
	return m->key.len ? put_name(PUT(at, "/"), m->key, version) : at;
}

/* The broker says it itself. */
static bool is_reserved(struct slice name)
{
	static const char *const names[] = { "ack",           "subscription",
					     "message-id",    "destination",
					     "redelivered",   "priority",
					     "content-length" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (slice_is(name, names[i]))
			return true;
	return false;
}

static void append_headers(struct stomp *l, const struct msg *m)
{
	struct out *o = l->base.out;

	for (unsigned i = 0; i < m->header_count; i++) {
		const struct msg_header *h = &m->headers[i];

		/* In 1.0 a name with a colon cannot be told from its value. */
		if (is_reserved(h->name) || msg_header_is_hidden(h->name) ||
		    (l->version == STOMP_1_0 && memchr(h->name.data, ':', h->name.len)))
			continue;
		append_escaped(o, h->name, l->version);
		out_append(o, ":", 1);
		append_escaped(o, h->value, l->version);
		out_append(o, "\n", 1);
	}
}

/* Put the id that an ACK names. */
static char *put_id(char *at, const struct stomp_channel *ch, const struct delivery *d)
{
	struct slice origin = buf_slice(&ch->origin);

	id_format(d->msg->id, at);
	at = out_put(at + ID_HEX_LEN, origin.data, origin.len);
	return decimal_put(at, d->tag);
}

static char *put_delivery(char *at, struct stomp *l, const struct stomp_channel *ch,
			  const struct delivery *d)
{
	const struct msg *m = d->msg, *head = reply_head(d);

	at = put_id(PUT(at, "message-id:"), ch, d);
	*at++ = '\n';
	at = put_destination(at, m, l->version);
	if (l->version == STOMP_1_2 && d->tag)
		at = put_id(PUT(at, "\nack:"), ch, d);
	at = d->is_redelivered ? PUT(at, "\nredelivered:true")
			       : PUT(at, "\nredelivered:false");
	if (m->priority)
		at = decimal_put(PUT(at, "\npriority:"), m->priority);
	if (d->attempt > 1)
		at = decimal_put(PUT(at, "\nx-attempt:"), d->attempt);
	if (d->has_offset) {
		at = decimal_put(PUT(at, "\nx-partition:"), d->partition);
		at = decimal_put(PUT(at, "\nx-offset:"), d->offset);
	}
	at = decimal_put(PUT(at, "\ncontent-length:"), m->payload_len);
	if (!head->header_count || !msg_header(head, SLICE("timestamp")).data)
		at = decimal_put(PUT(at, "\ntimestamp:"), (uint64_t)m->ts_unix_ms);
	*at++ = '\n';
	return at;
}

static void message(struct stomp *l, const struct stomp_channel *ch,
		    const struct delivery *d)
{
	const struct msg *m = d->msg, *head = reply_head(d);
	struct out *o = l->base.out;
	struct slice subscription = buf_slice(&ch->subscription);
	size_t small_len = m->payload_len <= PAYLOAD_SMALL ? m->payload_len + 3 : 0;
	char *at = out_reserve(o, subscription.len + 3 * (m->exchange.len + m->key.len) +
					  MESSAGE_SMALL + small_len);

	at = PUT(at, "MESSAGE\n");
	if (subscription.len > 0)
		at = out_put(at, subscription.data, subscription.len);
	at = put_delivery(at, l, ch, d);
	if (head->header_count) {
		out_grow_to(l->base.out, at);
		append_headers(l, head);
		at = out_reserve(o, small_len + 2);
	}
	*at++ = '\n';
	if (small_len) {
		at = out_put(at, m->payload, m->payload_len);
		at = PUT(at, FRAME_END);
		out_grow_to(l->base.out, at);
		return;
	}
	out_grow_to(l->base.out, at);
	out_append_payload(o, (struct msg *)m);
	out_append(o, FRAME_END, sizeof(FRAME_END) - 1);
}

static void text(struct stomp *l, const char *words)
{
	out_append_slice(l->base.out, slice_from(words));
}

static void header(struct stomp *l, const char *name, struct slice value)
{
	text(l, name);
	out_append(l->base.out, ":", 1);
	append_escaped(l->base.out, value, l->version);
	out_append(l->base.out, "\n", 1);
}

/* The headers end, and so does the frame. */
static void text_end(struct stomp *l, struct slice body)
{
	out_append(l->base.out, "\n", 1);
	out_append_slice(l->base.out, body);
	out_append(l->base.out, FRAME_END, sizeof(FRAME_END) - 1);
}

static void receipt(struct stomp *l, struct slice id)
{
	text(l, "RECEIPT\n");
	header(l, "receipt-id", id);
	text_end(l, (struct slice){ 0 });
}

/* RabbitMQ's word for an error, where no frame of STOMP has one of its own. */
static const char *word_of(const char *code)
{
	static const struct {
		const char *code, *word;
	} words[] = {
		{ "syntax", "Invalid frame" },
		{ "too-long", "Invalid frame" },
		{ "unknown-verb", "Bad command" },
		{ "not-found", "not_found" },
		{ "denied", "access_refused" },
		{ "rejected", "not_allowed" },
		{ "unroutable", "no_route" },
		{ "mismatch", "precondition_failed" },
		{ "exists", "precondition_failed" },
		{ "lease-lost", "precondition_failed" },
		{ "aborted", "precondition_failed" },
		{ "too-large", "precondition_failed" },
		{ "limit", "resource_error" },
		{ "full", "resource_error" },
		{ "busy", "resource_error" },
		{ "shutdown", "connection_forced" },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(code, words[i].code) == 0)
			return words[i].word;
	return "internal_error";
}

static void append_body(struct buf *out, struct slice why, const struct stomp_owed *owed)
{
	if (owed->sentence.data) {
		buf_append_slice(out, owed->sentence);
		return;
	}
	if (owed->verb < STOMP_VERB_COUNT)
		buf_printf(out, "%s: ", stomp_frame_verb(owed->verb));
	buf_append_slice(out, why);
	buf_append_text(out, "\n");
}

static void error_frame(struct stomp *l, const char *code, struct slice why,
			const struct stomp_owed *owed)
{
	char length[DECIMAL_MAX + 1];
	struct buf body = { 0 };

	if (l->base.is_silent)
		return;
	append_body(&body, why, owed);
	*decimal_put(length, buf_len(&body)) = '\0';
	text(l, "ERROR\n");
	header(l, "message", slice_from(owed->word ? owed->word : word_of(code)));
	header(l, "code", slice_from(code));
	header(l, "reason", why);
	if (!l->has_connected)
		text(l, "version:1.0,1.1,1.2\n");
	if (owed->receipt.data)
		header(l, "receipt-id", owed->receipt);
	text(l, "content-type:text/plain\n");
	header(l, "content-length", slice_from(length));
	text_end(l, buf_slice(&body));
	buf_deinit(&body);
	l->base.is_silent = true;
	l->state = STOMP_CLOSED;
}

void stomp_answer_whole(struct out *out, const char *code, const char *why)
{
	struct buf frame = { 0 };

	buf_printf(&frame,
		   "ERROR\nmessage:%s\ncode:%s\nversion:1.0,1.1,1.2\n"
		   "content-type:text/plain\ncontent-length:%zu\n\n%s\n",
		   word_of(code), code, strlen(why) + 1, why);
	buf_append(&frame, FRAME_END, sizeof(FRAME_END) - 1);
	out_append_slice(out, buf_slice(&frame));
	buf_deinit(&frame);
}

/* The broker ends the connection, and no frame is at fault. */
static void farewell(struct stomp *l, const char *word, const char *code,
		     struct slice why)
{
	const struct stomp_owed owed = { .verb = STOMP_VERB_COUNT, .word = word };

	error_frame(l, code, why, &owed);
}

static void connected(struct stomp *l)
{
	char numbers[2 * DECIMAL_MAX + 2], *at = numbers;
	struct session_facts facts = session_facts(l->base.session);

	text(l, "CONNECTED\n");
	header(l, "version", slice_from(stomp_frame_version(l->version)));
	*decimal_put(numbers, facts.number) = '\0';
	header(l, "session", slice_from(numbers));
	text(l, "server:tidemq/" TIDE_VERSION "\n");
	at = decimal_put(at, (uint64_t)l->base.heartbeat_out_ms);
	*at++ = ',';
	at = decimal_put(at, (uint64_t)l->base.heartbeat_in_ms);
	header(l, "heart-beat", (struct slice){ numbers, (size_t)(at - numbers) });
	text_end(l, (struct slice){ 0 });
}

/* ---- what the session says ------------------------------------------------------------
 */

static void wake(struct stomp *l)
{
	l->base.ops->wake(l->base.ctx);
}

static void end(struct stomp *l)
{
	l->state = STOMP_CLOSED;
	l->base.ops->finish(l->base.ctx);
}

void stomp_reply_leave(struct stomp *l)
{
	struct slice words = buf_slice(&l->leaving), code;

	if (!l->is_leaving || l->base.is_silent || !session_is_answered(l->base.session))
		return;
	if (l->has_error) {
		code = slice_cut(&words, ' ');
		*((char *)code.data + code.len) = '\0';
		farewell(l, l->leaving_word, code.data, words);
	} else if (words.len > 0) {
		receipt(l, words);
	}
	l->base.is_silent = true;
	end(l);
}

static void leave_with(struct stomp *l, const char *word, const char *words)
{
	l->state = STOMP_CLOSED;
	if (l->is_leaving && !l->has_error)
		return; /* it has said so itself */
	l->is_leaving = l->has_error = true;
	l->leaving_word = word;
	buf_clear(&l->leaving);
	buf_append_text(&l->leaving, words);
	buf_cstr(&l->leaving);
	stomp_reply_leave(l);
	wake(l);
}

void stomp_reply_closed(struct stomp *l, const char *words)
{
	leave_with(l, "connection_forced", words);
}

static void pay_receipts(struct stomp *l, const struct stomp_owed *owed)
{
	struct slice kept = owed->kept;

	while (kept.len > 0)
		receipt(l, slice_cut(&kept, '\0'));
	if (owed->receipt.data && !owed->is_part && !owed->is_kept)
		receipt(l, owed->receipt);
}

static void on_reply(void *ctx, unsigned channel, struct reply *r)
{
	struct stomp *l = ctx;
	struct stomp_channel *ch = l->channels[channel];
	struct stomp_owed owed = stomp_channel_pay(ch);

	if (l->base.is_silent) {
		stomp_channel_settle(l, ch);
		return;
	}
	if (r->kind == REPLY_ERROR) {
		error_frame(l, error_wire_code(r->error), slice_from(r->text), &owed);
		end(l);
	} else if (owed.verb == STOMP_CONNECT) {
		l->has_connected = true;
		connected(l);
	} else {
		pay_receipts(l, &owed);
	}
	stomp_channel_settle(l, ch);
	if (l->is_leaving)
		stomp_reply_leave(l);
	wake(l);
}

static void on_deliver(void *ctx, unsigned channel, struct slice sid,
		       const struct delivery *d)
{
	struct stomp *l = ctx;

	if (l->base.is_silent)
		return;
	message(l, l->channels[channel], d);
	wake(l);
}

/* Of all events a STOMP client can be told one, and only so.
 *
 * @param words  "<sid> <why>" */
static void on_event(void *ctx, unsigned channel, const char *what, const char *words)
{
	struct stomp *l = ctx;
	struct stomp_channel *ch = l->channels[channel];
	bool is_denied = strcmp(words + strcspn(words, " "), " denied") == 0;
	struct buf why = { 0 };

	if (strcmp(what, "cancelled") != 0 || ch->is_ended)
		return;
	buf_printf(&why, "%s the subscription '%" SLICE_FMT "' has ended: %s",
		   is_denied ? "denied" : "not-found", SLICE_ARG(ch->id),
		   is_denied ? "its user may no longer read from the queue"
			     : "its queue was deleted");
	leave_with(l, "Server cancelled subscription", buf_cstr(&why));
	buf_deinit(&why);
}

static bool can_take(void *ctx)
{
	struct stomp *l = ctx;

	return !l->is_leaving && !l->base.is_silent && protocol_can_take(&l->base);
}

/* STOMP has no word for it: the client's next frames are not read. */
static void on_blocked(void *ctx, bool is_blocked, const char *why)
{
	if (!is_blocked)
		wake(ctx);
}

static void on_kill(void *ctx, const char *why)
{
	struct stomp *l = ctx;
	struct slice words = slice_from(why), code = slice_cut(&words, ' ');
	struct buf code_text = { 0 };

	buf_append_slice(&code_text, code);
	farewell(l, "connection_forced", buf_cstr(&code_text), words);
	buf_deinit(&code_text);
	l->state = STOMP_CLOSED;
	l->base.is_silent = true;
	l->base.ops->kill(l->base.ctx);
}

static void describe(void *ctx, struct json *out)
{
	const struct stomp *l = ctx;

	protocol_describe(ctx, out);
	if (l->has_connected)
		json_member_text(out, "version", stomp_frame_version(l->version));
}

const struct session_ops stomp_reply_ops = {
	.on_reply = on_reply,
	.on_deliver = on_deliver,
	.on_event = on_event,
	.on_progress = protocol_on_progress,
	.can_take = can_take,
	.on_blocked = on_blocked,
	.on_kill = on_kill,
	.describe = describe,
	.facts = protocol_facts,
};

void stomp_reply_error(struct stomp *l, const struct stomp_frame *f,
		       const struct error *err)
{
	struct stomp_owed owed = { .verb = STOMP_VERB_COUNT };
	struct stomp_channel *zero = stomp_channel_zero(l);

	l->state = STOMP_CLOSED;
	if (f && f->verb < STOMP_VERB_COUNT) {
		owed.verb = f->verb;
		owed.receipt = stomp_frame_header(f, STOMP_H_RECEIPT);
	}
	stomp_channel_owe(zero, &owed);
	if (f)
		stomp_channel_explain(zero, f->word, f->sentence);
	reply_error(reply_create(stomp_channel_session(l, zero), false), err);
}
