#include "stomp_settle.h"

#include "base/duration.h"
#include "base/id.h"
#include "stomp_transaction.h"

/* What the id of a delivery says. */
struct delivered {
	uint64_t id; /* of the message */
	uint64_t session, serial;
	uint64_t tag;
};

/* "<id of the message>-<session>-<serial of the subscription>-<tag>" */
static bool read_delivered(struct slice text, struct delivered *d)
{
	struct slice id = slice_cut(&text, '-'), session = slice_cut(&text, '-'),
		     serial = slice_cut(&text, '-');

	return id_parse(id, &d->id) == TIDE_OK &&
	       slice_to_uint(session, UINT64_MAX, &d->session) &&
	       slice_to_uint(serial, UINT64_MAX, &d->serial) &&
	       slice_to_uint(text, UINT64_MAX - 1, &d->tag);
}

/* The subscription that was given the message, or NULL. Numbers of sessions begin again
 * with the broker: what an earlier one gave out is told from the rest by its id. */
static struct stomp_channel *find_delivered(struct stomp *l, const struct delivered *d)
{
	struct stomp_channel *ch = NULL;

	if (d->session == session_facts(l->base.session).number)
		ch = stomp_channel_find_serial(l, d->serial);
	if (!ch || ch->is_auto ||
	    session_held_was_given(stomp_channel_session(l, ch), d->tag, d->id))
		return ch;
	return NULL;
}

/* Which message: 1.2 names it by the header "ack" of its MESSAGE, 1.0 and 1.1 by its
 * "message-id". */
static struct stomp_channel *find_message(struct stomp *l, struct stomp_frame *f,
					  uint64_t *tag)
{
	struct slice subscription = stomp_frame_header(f, STOMP_H_SUBSCRIPTION), text;
	struct stomp_channel *ch;
	struct delivered d;

	text = stomp_frame_header(f, STOMP_H_MESSAGE_ID);
	if (l->version == STOMP_1_2 || !text.data)
		text = stomp_frame_need(f, l->version == STOMP_1_2 ? STOMP_H_ID
								   : STOMP_H_MESSAGE_ID);
	if (f->rc < 0)
		return NULL;
	if (!read_delivered(text, &d)) {
		f->rc = error_set(f->err, TIDE_ENOTFOUND,
				  "no message with the id '%.*s' was given to a "
				  "subscription of this connection",
				  SLICE_HEAD(text, 64));
		stomp_frame_explain(f, "Invalid header", NULL);
		return NULL;
	}
	ch = find_delivered(l, &d);
	*tag = d.tag;
	if (!ch)
		f->rc = error_set(f->err, TIDE_ELEASE,
				  "the message '%.*s' is no longer held: it was settled "
				  "or timed out, or the connection was lost",
				  SLICE_HEAD(text, 64));
	else if (ch->is_auto)
		f->rc = error_set(f->err, TIDE_EDENIED,
				  "the subscription '%.*s' has ack:auto: its messages "
				  "need no %s",
				  SLICE_HEAD(ch->id, 64), stomp_frame_verb(f->verb));
	else if (subscription.data && !slice_is_equal(subscription, ch->id))
		f->rc = error_set(f->err, TIDE_ENOTFOUND,
				  "the message '%.*s' is not one of the subscription "
				  "'%.*s'",
				  SLICE_HEAD(text, 64), SLICE_HEAD(subscription, 64));
	return f->rc < 0 ? NULL : ch;
}

static void read_nack(struct stomp_frame *f, struct settle_spec *spec)
{
	static const struct number_limits delay = { 0, DURATION_MAX_MS };
	bool has_delay = stomp_frame_header(f, STOMP_H_DELAY).data != NULL,
	     has_requeue = stomp_frame_header(f, STOMP_H_REQUEUE).data != NULL,
	     is_requeue = stomp_frame_flag(f, STOMP_H_REQUEUE, true);

	spec->ms = stomp_frame_duration(f, STOMP_H_DELAY, delay);
	spec->reason = stomp_frame_header(f, STOMP_H_REASON);
	if (has_delay && !is_requeue && f->rc == TIDE_OK)
		f->rc = error_set(f->err, TIDE_ESYNTAX,
				  "NACK takes delay or requeue:false, not both");
	spec->how = !is_requeue   ? SETTLE_DEAD
		    : has_delay   ? SETTLE_AFTER
		    : has_requeue ? SETTLE_REQUEUE
				  : SETTLE_RETRY;
}

int stomp_settle(struct stomp *l, struct stomp_frame *f)
{
	struct tag_range range;
	struct settle_spec spec = { .how = SETTLE_ACK, .ranges = &range, .count = 1 };
	struct stomp_channel *ch;
	struct reply *r;

	if (stomp_transaction_find(l, f, &spec.transaction) < 0)
		return f->rc;
	if (f->verb == STOMP_NACK)
		read_nack(f, &spec);
	ch = f->rc < 0 ? NULL : find_message(l, f, &range.last);
	if (!ch)
		return f->rc;
	range.first = ch->is_cumulative ? 1 : range.last;
	r = stomp_channel_reply(l, ch, f);
	f->rc = session_settle(stomp_channel_session(l, ch), &spec, r, f->err);
	if (f->rc == TIDE_ELEASE && !spec.transaction) {
		/* It was settled before. Of what somebody else has, the reply is an
		 * error. */
		f->rc = TIDE_OK;
		reply_ok(r);
	}
	return f->rc < 0 ? stomp_channel_fail(ch, f, r) : TIDE_OK;
}
