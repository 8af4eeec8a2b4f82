/* What the broker says: answers, deliveries, confirms, errors. */
#include <stdarg.h>
#include <stdio.h>

#include "amqp.h"
#include "amqp_message.h"
#include "base/mem.h"

/* ---- frames ------------------------------------------------------------------------ */

static char *put_frame(char *at, enum amqp_frame type, unsigned channel, size_t len)
{
	at = amqp_put_number(at, type, 1);
	at = amqp_put_number(at, channel, 2);
	return amqp_put_number(at, len, 4);
}

static void wake(struct amqp *l)
{
	l->base.ops->wake(l->base.ctx);
}

static void send_method(struct out *out, unsigned channel, enum amqp_method method,
			const struct amqp_value *values)
{
	size_t room = AMQP_FRAME_HEAD + amqp_codec_size(method, values) + 1;
	char *frame = out_reserve(out, room), *at;

	at = amqp_codec_put(frame + AMQP_FRAME_HEAD, method, values);
	put_frame(frame, AMQP_FRAME_METHOD, channel,
		  (size_t)(at - frame) - AMQP_FRAME_HEAD);
	*at++ = (char)AMQP_FRAME_END;
	out_grow_to(out, at);
}

void amqp_send(struct amqp *l, unsigned channel, enum amqp_method method,
	       const struct amqp_value *values)
{
	send_method(l->base.out, channel, method, values);
	wake(l);
}

static void send_header(struct amqp *l, unsigned channel, size_t body_len,
			struct slice properties)
{
	struct out *o = l->base.out;
	char head[AMQP_FRAME_HEAD + 12], *at = head;
	const char end = (char)AMQP_FRAME_END;

	at = put_frame(at, AMQP_FRAME_HEADER, channel, 12 + properties.len);
	at = amqp_put_number(at, AMQP_CLASS_BASIC, 2);
	at = amqp_put_number(at, 0, 2);
	amqp_put_number(at, body_len, 8);
	out_append(o, head, sizeof(head));
	out_append_slice(o, properties);
	out_append(o, &end, 1);
}

static void send_body(struct amqp *l, unsigned channel, struct msg *m)
{
	struct out *o = l->base.out;
	size_t most = l->frame_max - AMQP_FRAME_HEAD - 1, at = 0, len;
	const char end = (char)AMQP_FRAME_END;
	char head[AMQP_FRAME_HEAD];

	for (; at < m->payload_len; at += len) {
		len = m->payload_len - at < most ? m->payload_len - at : most;
		put_frame(head, AMQP_FRAME_BODY, channel, len);
		out_append(o, head, sizeof(head));
		out_append_part(o, m, at, len);
		out_append(o, &end, 1);
	}
}

/* A method with a message behind it. Properties that the client's frames have no room for
 * go without the headers. */
static void send_content(struct amqp *l, unsigned channel, enum amqp_method method,
			 const struct amqp_value *values, const struct delivery *d)
{
	struct msg *m = d->msg;
	struct amqp_properties p;

	buf_clear(&l->properties);
	amqp_message_write(&l->properties, m, reply_head(d),
			   d->attempt > 1 ? d->attempt - 1 : 0);
	if (buf_len(&l->properties) > l->frame_max - AMQP_FRAME_HEAD - 13 &&
	    amqp_properties_read(buf_slice(&l->properties), &p)) {
		struct buf less = { 0 };

		p.flags &= (uint16_t) ~(0x8000u >> AMQP_P_HEADERS);
		amqp_properties_write(&p, &less);
		buf_deinit(&l->properties);
		l->properties = less;
	}
	amqp_send(l, channel, method, values);
	send_header(l, channel, m->payload_len, buf_slice(&l->properties));
	send_body(l, channel, m);
	wake(l);
}

/* ---- what is owed ------------------------------------------------------------------ */

static void grow(struct amqp_channel *ch)
{
	size_t cap = ch->owed_cap ? 2 * ch->owed_cap : 8;
	struct amqp_owed *owed = mem_alloc(cap * sizeof(*owed));

	for (size_t i = 0; i < ch->owed_count; i++)
		owed[i] = ch->owed[(ch->owed_first + i) & (ch->owed_cap - 1)];
	mem_free(ch->owed);
	ch->owed = owed;
	ch->owed_first = 0;
	ch->owed_cap = cap;
}

struct reply *amqp_owe(struct amqp_channel *ch, const struct amqp_owed *owed)
{
	if (ch->owed_count == ch->owed_cap)
		grow(ch);
	ch->owed[(ch->owed_first + ch->owed_count++) & (ch->owed_cap - 1)] = *owed;
	return reply_create(session_channel(ch->l->base.session, ch->number), false);
}

static struct amqp_owed pay(struct amqp_channel *ch)
{
	struct amqp_owed owed = ch->owed[ch->owed_first];

	ch->owed_first = (ch->owed_first + 1) & (ch->owed_cap - 1);
	ch->owed_count--;
	return owed;
}

struct reply *amqp_answer(const struct amqp_request *q, bool is_quiet, struct slice text,
			  uint64_t n)
{
	const struct amqp_owed owed = {
		.kind = is_quiet ? AMQP_OWED_QUIET : AMQP_OWED_ANSWER,
		.request = q->method,
		.n = n,
		.text = text.data ? mem_strndup(text.data, text.len) : NULL,
	};

	return amqp_owe(q->channel, &owed);
}

void amqp_answer_ok(const struct amqp_request *q, bool is_quiet, struct slice text,
		    uint64_t n)
{
	reply_ok(amqp_answer(q, is_quiet, text, n));
}

/* ---- errors ------------------------------------------------------------------------ */

enum amqp_code amqp_code_of(int error)
{
	switch (error) {
	case TIDE_ENOTFOUND:
		return AMQP_NOT_FOUND;
	case TIDE_EDENIED:
	case TIDE_EREJECTED:
		return AMQP_ACCESS_REFUSED;
	case TIDE_ESHUTDOWN:
		return AMQP_CONNECTION_FORCED;
	case TIDE_ESYNTAX:
	case TIDE_ETOOLONG:
	case TIDE_ETOOLARGE:
	case TIDE_EMISMATCH:
	case TIDE_EEXISTS:
	case TIDE_ELEASE:
	case TIDE_ELIMIT:
	case TIDE_EFULL:
	case TIDE_EBUSY:
	case TIDE_EABORTED:
	case TIDE_EUNROUTABLE:
		return AMQP_PRECONDITION_FAILED;
	default:
		return AMQP_INTERNAL_ERROR;
	}
}

/* basic.ack for all that were confirmed since the last one. */
static void send_acks(struct amqp_channel *ch)
{
	if (ch->acked_count == 0)
		return;
	amqp_send(ch->l, ch->number, AMQP_BASIC_ACK,
		  (struct amqp_value[]){ { .n = ch->acked },
					 { .n = ch->acked_count > 1 } });
	TAILQ_REMOVE(&ch->l->acking, ch, acking_link);
	ch->acked_count = 0;
}

static void send_close(struct out *out, unsigned channel, enum amqp_method request,
		       enum amqp_code code, const char *text)
{
	const struct amqp_method_row *row =
		request < AMQP_METHOD_COUNT ? amqp_codec_method(request) : NULL;
	char words[256];

	snprintf(words, sizeof(words), "%s - %s", amqp_codec_code_name(code), text);
	send_method(out, channel, channel ? AMQP_CHANNEL_CLOSE : AMQP_CONNECTION_CLOSE,
		    (struct amqp_value[]){ { .n = code },
					   { .s = slice_from(words) },
					   { .n = row ? row->class_id : 0 },
					   { .n = row ? row->method_id : 0 } });
}

void amqp_answer_whole(struct out *out, const char *why)
{
	send_close(out, 0, AMQP_METHOD_COUNT, AMQP_CONNECTION_FORCED, why);
}

static void end(struct amqp *l)
{
	l->state = AMQP_CLOSED;
	l->base.is_silent = true;
	l->base.ops->finish(l->base.ctx);
}

static void close_connection(struct amqp *l, enum amqp_method request,
			     enum amqp_code code, const char *text)
{
	if (l->state == AMQP_CLOSED)
		return;
	while (!TAILQ_EMPTY(&l->acking))
		send_acks(TAILQ_FIRST(&l->acking));
	if (l->state != AMQP_PROTOCOL)
		send_close(l->base.out, 0, request, code, text);
	end(l);
}

static void close_channel(struct amqp_channel *ch, enum amqp_method request,
			  enum amqp_code code, const char *text)
{
	if (ch->is_closing)
		return;
	send_acks(ch);
	send_close(ch->l->base.out, ch->number, request, code, text);
	/* Not at once: this may be within a reply of the channel. */
	ch->is_closing = ch->is_ending = true;
	TAILQ_INSERT_TAIL(&ch->l->ending, ch, ending_link);
	wake(ch->l);
}

void amqp_fail(struct amqp *l, struct amqp_channel *ch, enum amqp_method request,
	       enum amqp_code code, const char *format, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (ch && ch->number && !amqp_codec_code_is_hard(code))
		close_channel(ch, request, code, text);
	else
		close_connection(l, request, code, text);
}

/* A script that refuses what it is asked for, a pattern for instance, refuses it for this
 * channel alone. */
static enum amqp_code request_code(int error)
{
	return error == TIDE_ERULE ? AMQP_PRECONDITION_FAILED : amqp_code_of(error);
}

void amqp_fail_with(const struct amqp_request *q, const struct error *err)
{
	amqp_fail(q->l, q->channel, q->method, request_code(err->code), "%s", err->text);
}

/* ---- what the session says --------------------------------------------------------- */

void amqp_leave(struct amqp *l)
{
	if (!l->is_leaving || l->state == AMQP_CLOSED ||
	    !session_is_answered(l->base.session))
		return;
	if (l->has_error) {
		close_connection(l, AMQP_METHOD_COUNT, AMQP_CONNECTION_FORCED,
				 l->leaving);
		return;
	}
	amqp_send(l, 0, AMQP_CONNECTION_CLOSE_OK, NULL);
	end(l);
}

static void confirm(struct amqp_channel *ch, uint64_t number)
{
	if (ch->acked_count++ == 0)
		TAILQ_INSERT_TAIL(&ch->l->acking, ch, acking_link);
	ch->acked = number;
	wake(ch->l);
}

static void send_return(struct amqp_channel *ch, struct msg *m)
{
	const struct delivery d = { .msg = m };

	send_content(ch->l, ch->number, AMQP_BASIC_RETURN,
		     (struct amqp_value[]){ { .n = AMQP_NO_ROUTE },
					    { .s = SLICE("NO_ROUTE") },
					    { .s = m->exchange },
					    { .s = m->key } },
		     &d);
}

/* A publish was refused. Without confirms a client learns of it as RabbitMQ's do: if the
 * exchange is not there, or not for this user. */
static void refuse_publish(struct amqp_channel *ch, const struct amqp_owed *owed,
			   const struct reply *r)
{
	enum amqp_code code = amqp_code_of(r->error);

	if (r->error == TIDE_EUNROUTABLE && owed->msg) {
		send_return(ch, owed->msg);
		if (owed->n)
			confirm(ch, owed->n);
	} else if (code == AMQP_NOT_FOUND || r->error == TIDE_EDENIED ||
		   (!owed->n && amqp_codec_code_is_hard(code))) {
		amqp_fail(ch->l, ch, AMQP_BASIC_PUBLISH, code, "%s", r->text);
	} else if (owed->n) {
		send_acks(ch);
		amqp_send(ch->l, ch->number, AMQP_BASIC_NACK,
			  (struct amqp_value[]){ { .n = owed->n }, { 0 }, { 0 } });
	}
}

static void answer_declare(struct amqp_channel *ch, const struct amqp_owed *owed,
			   const struct reply *r)
{
	struct slice text = slice_from(r->kind == REPLY_TEXT ? r->text : "");
	struct slice name = slice_from(owed->text);
	struct define_facts facts = { .ready = 0 };
	struct error ignored;

	if (name.len == 0)
		name = slice_cut(&text, ' ');
	mem_free(ch->last_queue);
	ch->last_queue = mem_strndup(name.data, name.len);
	if (session_define_look(ch->l->base.session, DEFINE_QUEUE, name, &facts,
				&ignored) == TIDE_OK)
		args_deinit(&facts.options);
	if (owed->kind != AMQP_OWED_QUIET)
		amqp_send(ch->l, ch->number, AMQP_QUEUE_DECLARE_OK,
			  (struct amqp_value[]){ { .s = name },
						 { .n = facts.ready },
						 { .n = facts.consumers } });
}

static void answer_get(struct amqp_channel *ch, const struct amqp_owed *owed,
		       const struct reply *r)
{
	struct session *s = ch->l->base.session;
	struct define_facts facts = { .ready = 0 };
	const struct delivery *d = r->deliveries;
	struct error ignored;

	if (r->count == 0) {
		amqp_send(ch->l, ch->number, AMQP_BASIC_GET_EMPTY,
			  (struct amqp_value[]){ { .s = SLICE("") } });
		return;
	}
	if (session_define_look(s, DEFINE_QUEUE, slice_from(owed->text), &facts,
				&ignored) == TIDE_OK)
		args_deinit(&facts.options);
	ch->last_tag =
		d->tag ? d->tag : session_held_skip(session_channel(s, ch->number));
	send_content(ch->l, ch->number, AMQP_BASIC_GET_OK,
		     (struct amqp_value[]){ { .n = ch->last_tag },
					    { .n = d->is_redelivered },
					    { .s = d->msg->exchange },
					    { .s = d->msg->key },
					    { .n = facts.ready } },
		     d);
}

static void answer(struct amqp_channel *ch, const struct amqp_owed *owed,
		   const struct reply *r)
{
	struct amqp_value value = { .n = owed->n, .s = slice_from(owed->text) };

	if (owed->request == AMQP_QUEUE_DECLARE) {
		answer_declare(ch, owed, r);
		return;
	}
	if (owed->kind == AMQP_OWED_QUIET)
		return;
	if (owed->request == AMQP_QUEUE_PURGE)
		value.n = r->count;
	if (owed->request == AMQP_CHANNEL_CLOSE)
		send_acks(ch);
	amqp_send(ch->l, ch->number, (enum amqp_method)(owed->request + 1), &value);
}

static void take_reply(struct amqp_channel *ch, const struct amqp_owed *owed,
		       const struct reply *r)
{
	bool is_error = r->kind == REPLY_ERROR;

	/* A channel that its client closes is told nothing but that. */
	if (owed->kind == AMQP_OWED_NOTHING || ch->is_closing ||
	    (is_error && ch->number && !ch->is_open))
		return;
	if (is_error && owed->kind == AMQP_OWED_PUBLISH)
		refuse_publish(ch, owed, r);
	else if (is_error)
		amqp_fail(ch->l, ch, owed->request, request_code(r->error), "%s",
			  r->text);
	else if (owed->kind == AMQP_OWED_PUBLISH && owed->n)
		confirm(ch, owed->n);
	else if (owed->kind == AMQP_OWED_GET)
		answer_get(ch, owed, r);
	else if (owed->kind != AMQP_OWED_PUBLISH)
		answer(ch, owed, r);
}

static struct amqp_channel *channel_of(struct amqp *l, unsigned number)
{
	return number ? l->channels[number] : &l->zero;
}

static void on_reply(void *ctx, unsigned channel, struct reply *r)
{
	struct amqp *l = ctx;
	struct amqp_channel *ch = channel_of(l, channel);
	struct amqp_owed owed = pay(ch);

	if (l->state != AMQP_CLOSED)
		take_reply(ch, &owed, r);
	msg_unref(owed.msg);
	mem_free(owed.text);
	amqp_leave(l);
	wake(l);
}

static void on_deliver(void *ctx, unsigned channel, struct slice sid,
		       const struct delivery *d)
{
	struct amqp *l = ctx;
	struct amqp_channel *ch = channel_of(l, channel);

	if (l->state == AMQP_CLOSED || ch->is_closing)
		return;
	ch->last_tag =
		d->tag ? d->tag
		       : session_held_skip(session_channel(l->base.session, channel));
	send_content(l, channel, AMQP_BASIC_DELIVER,
		     (struct amqp_value[]){ { .s = sid },
					    { .n = ch->last_tag },
					    { .n = d->is_redelivered },
					    { .s = d->msg->exchange },
					    { .s = d->msg->key } },
		     d);
}

/* @param words  "<tag> <why>" of what is told; a tag may have spaces */
static void on_event(void *ctx, unsigned channel, const char *what, const char *words)
{
	struct amqp *l = ctx;
	const char *space = strrchr(words, ' ');
	struct slice tag = { words, space ? (size_t)(space - words) : strlen(words) };

	if (strcmp(what, "cancelled") != 0 || l->state == AMQP_CLOSED ||
	    channel_of(l, channel)->is_closing)
		return;
	amqp_basic_forget_tag(channel_of(l, channel), tag);
	if (l->is_told_cancelled)
		amqp_send(l, channel, AMQP_BASIC_CANCEL,
			  (struct amqp_value[]){ { .s = tag }, { .n = 1 } });
}

static bool can_take(void *ctx)
{
	struct amqp *l = ctx;

	return !l->is_leaving && l->state != AMQP_CLOSED && protocol_can_take(&l->base);
}

static void on_blocked(void *ctx, bool is_blocked, const char *why)
{
	struct amqp *l = ctx;

	if (l->state == AMQP_READY && l->is_told_blocked)
		amqp_send(l, 0,
			  is_blocked ? AMQP_CONNECTION_BLOCKED
				     : AMQP_CONNECTION_UNBLOCKED,
			  (struct amqp_value[]){ { .s = slice_from(why) } });
	wake(l);
}

static void on_kill(void *ctx, const char *why)
{
	struct amqp *l = ctx;

	struct slice words = slice_from(why), code = slice_cut(&words, ' ');

	(void)code;
	close_connection(l, AMQP_METHOD_COUNT, AMQP_CONNECTION_FORCED, words.data);
	l->base.ops->kill(l->base.ctx);
}

static void describe(void *ctx, struct json *out)
{
	const struct amqp *l = ctx;

	protocol_describe(ctx, out);
	if (l->state > AMQP_PROTOCOL)
		json_member_text(out, "version", "0-9-1");
}

const struct session_ops amqp_reply_ops = {
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

void amqp_flush(struct protocol *p)
{
	struct amqp *l = (struct amqp *)p;

	while (!TAILQ_EMPTY(&l->ending))
		amqp_channel_end(TAILQ_FIRST(&l->ending));
	while (l->state != AMQP_CLOSED && !TAILQ_EMPTY(&l->acking))
		send_acks(TAILQ_FIRST(&l->acking));
}
