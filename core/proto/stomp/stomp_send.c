#include "stomp_send.h"

#include <stdio.h>

#include "base/duration.h"
#include "base/mem.h"
#include "stomp_destination.h"
#include "stomp_subscribe.h"
#include "stomp.h"

#define REPLY_TO_MAX (2 * 255 + 64)

/* With the options that the frame has, as a SUBSCRIBE declares it. */
static int ensure_queue(struct stomp *l, struct stomp_frame *f)
{
	struct stomp_options options;

	if (stomp_destination_read_options(&options, f) == TIDE_OK) {
		stomp_destination_ensure_queue(l, stomp_channel_zero(l), f, l->last.key,
					       &options);
		stomp_destination_free_options(&options);
	}
	return f->rc;
}

/* It may be made. */
static int ensure(struct stomp *l, struct stomp_frame *f)
{
	const struct stomp_destination *d = &l->last;

	if (d->place == STOMP_QUEUE)
		return ensure_queue(l, f);
	if (d->place == STOMP_TEMP_QUEUE)
		return f->rc = error_set(
			       f->err, TIDE_EDENIED,
			       "/temp-queue/ is for the header reply-to and for "
			       "SUBSCRIBE; messages are sent to what reply-to "
			       "says when they arrive, /reply-queue/<queue>");
	return TIDE_OK;
}

/* The destination, in l->last. Most have that of the one before. */
static int find_destination(struct stomp *l, struct stomp_frame *f)
{
	struct slice text = stomp_frame_need(f, STOMP_H_DESTINATION);
	uint64_t version = session_route_version(l->base.session);
	bool is_last;

	if (f->rc < 0)
		return f->rc;
	is_last = slice_is_equal(text, buf_slice(&l->last_text));
	if (is_last && l->last_version == version)
		return TIDE_OK;
	buf_clear(&l->last_text);
	if (!l->last_room)
		l->last_room = mem_alloc(STOMP_DESTINATION_MAX);
	if (stomp_destination_read(f, text, l->last_room, &l->last) < 0 ||
	    ensure(l, f) < 0)
		return f->rc;
	buf_append_slice(&l->last_text, text);
	l->last_version = session_route_version(l->base.session);
	return TIDE_OK;
}

static int check_header(struct stomp_frame *f, struct slice name)
{
	if (slice_is_name(name) && !memchr(name.data, '=', name.len))
		return TIDE_OK;
	return f->rc = error_set(f->err, TIDE_ESYNTAX,
				 "the header '%.*s' cannot be stored: its name must be "
				 "1-255 bytes of UTF-8 without white space, control "
				 "characters and '='",
				 SLICE_HEAD(name, 64));
}

/* Who copies the headers of a MESSAGE has some that say nothing of the new one. */
static bool is_of_delivery(struct slice name)
{
	static const char *const names[] = { "ack",       "subscription", "redelivered",
					     "x-attempt", "x-partition",  "x-offset" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (slice_is(name, names[i]))
			return true;
	return slice_has_prefix(name, "x-death-");
}

/* Those that are the message's stay. */
static void drop_headers(const struct stomp *l, struct stomp_frame *f)
{
	bool has_options = l->last.place == STOMP_QUEUE;
	unsigned count = 0;

	for (unsigned i = 0; i < f->count; i++)
		if (!is_of_delivery(f->others[i].name) &&
		    !(has_options && stomp_destination_is_option(f->others[i].name)))
			f->others[count++] = f->others[i];
	f->count = count;
}

/* @param room  for a reply-to that is rewritten */
static int read_headers(struct stomp *l, struct stomp_frame *f, char room[REPLY_TO_MAX])
{
	struct slice reply_to = stomp_frame_header(f, STOMP_H_REPLY_TO), queue;

	drop_headers(l, f);
	for (unsigned i = 0; i < f->count; i++)
		if (check_header(f, f->others[i].name) < 0)
			return f->rc;
	if (!reply_to.data)
		return TIDE_OK;
	if (f->count == MSG_HEADERS_MAX)
		return f->rc = error_set(f->err, TIDE_ETOOLONG,
					 "a message has at most %d headers",
					 MSG_HEADERS_MAX);
	if (slice_has_prefix(reply_to, "/temp-queue/")) {
		if (stomp_subscribe_temp(l, f, reply_to, &queue) < 0)
			return f->rc;
		reply_to.len = (size_t)snprintf(
			room, REPLY_TO_MAX, "/reply-queue/%" SLICE_FMT, SLICE_ARG(queue));
		reply_to.data = room;
	}
	f->others[f->count++] = (struct msg_header){ SLICE("reply-to"), reply_to };
	return TIDE_OK;
}

static void read_options(struct stomp_frame *f, struct publish_spec *spec)
{
	static const struct number_limits priority = { 0, MSG_PRIORITY_MAX },
					  delay = { 0, DURATION_MAX_MS },
					  ttl = { 1, DURATION_MAX_MS },
					  lease = { MSG_ACK_TIMEOUT_MIN_MS,
						    MSG_ACK_TIMEOUT_MAX_MS };

	spec->priority = (uint8_t)stomp_frame_uint(f, STOMP_H_PRIORITY, priority, 0);
	spec->delay_ms = stomp_frame_duration(f, STOMP_H_DELAY, delay);
	spec->ttl_ms = stomp_frame_duration(f, STOMP_H_EXPIRATION, ttl);
	spec->ack_timeout_ms =
		(uint32_t)stomp_frame_duration(f, STOMP_H_ACK_TIMEOUT, lease);
	spec->dedupe_id = stomp_frame_header(f, STOMP_H_PUBLISH_ID);
	if (spec->dedupe_id.data &&
	    (spec->dedupe_id.len == 0 || spec->dedupe_id.len > MSG_DEDUPE_ID_MAX))
		stomp_frame_refuse(f, STOMP_H_PUBLISH_ID, "1-%d bytes",
				   MSG_DEDUPE_ID_MAX);
}

int stomp_send(struct stomp *l, struct stomp_frame *f, size_t body_len)
{
	struct publish_spec spec = { .payload_len = body_len };
	char reply_to[REPLY_TO_MAX];
	struct stomp_owed owed = { .verb = STOMP_SEND };
	bool is_queue;

	if (stomp_frame_header(f, STOMP_H_MESSAGE_ID).data) {
		f->rc = error_set(
			f->err, TIDE_ESYNTAX,
			"SEND has no header 'message-id': the broker gives each "
			"message its id; publish-id is for one of your own");
		return stomp_frame_explain(f, "Invalid header",
					   "'message-id' is not allowed on 'SEND'.\n");
	}
	if (find_destination(l, f) < 0 || read_headers(l, f, reply_to) < 0)
		return f->rc;
	read_options(f, &spec);
	is_queue = l->last.place == STOMP_QUEUE || l->last.place == STOMP_AMQ_QUEUE;
	l->demand = (struct publish_demand){ .must = stomp_frame_flag(f, STOMP_H_MUST,
								      is_queue) };
	if (f->rc < 0 || stomp_transaction_find(l, f, &l->demand.transaction) < 0)
		return f->rc;
	spec.exchange = l->last.exchange;
	spec.key = l->last.key;
	spec.headers = f->others;
	spec.header_count = f->count;
	f->rc = session_publish_prepare(l->base.session, &spec, &l->base.msg, f->err);
	if (f->rc < 0)
		return f->rc;
	l->base.filled = 0;
	l->state = STOMP_BODY;
	owed.receipt = stomp_frame_header(f, STOMP_H_RECEIPT);
	owed.is_kept = l->demand.transaction != NULL;
	if (owed.is_kept)
		stomp_transaction_keep(l, f);
	stomp_channel_owe(stomp_channel_zero(l), &owed);
	return TIDE_OK;
}

void stomp_send_publish(struct stomp *l)
{
	struct channel *ch = stomp_channel_session(l, stomp_channel_zero(l));
	struct msg *m = l->base.msg;

	protocol_received(&l->base);
	l->base.msg = NULL;
	l->state = STOMP_FRAME;
	session_publish_take(l->base.session, m, &l->demand, reply_create(ch, false));
}
