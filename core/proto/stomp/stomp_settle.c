#include "stomp_settle.h"

#include "base/duration.h"
#include "stomp_transaction.h"

/* "[<id of the message>-]<channel>-<tag>" */
static bool read_place(struct slice text, uint64_t *channel, uint64_t *tag)
{
	size_t dash = text.len, before;

	while (dash > 0 && text.data[dash - 1] != '-')
		dash--;
	if (dash == 0)
		return false;
	before = dash - 1;
	while (before > 0 && text.data[before - 1] != '-')
		before--;
	return slice_to_uint(slice_skip(text, dash), UINT64_MAX - 1, tag) &&
	       slice_to_uint((struct slice){ text.data + before, dash - 1 - before },
			     UINT32_MAX, channel);
}

/* Which message: 1.2 names it by the header "ack" of its MESSAGE, 1.0 and 1.1 by its
 * "message-id". */
static struct stomp_channel *find_message(struct stomp *l, struct stomp_frame *f,
					  uint64_t *tag)
{
	struct stomp_channel *ch = NULL;
	struct slice subscription = stomp_frame_header(f, STOMP_H_SUBSCRIPTION), text;
	uint64_t channel;

	text = stomp_frame_header(f, STOMP_H_MESSAGE_ID);
	if (l->version == STOMP_1_2 || !text.data)
		text = stomp_frame_need(f, l->version == STOMP_1_2 ? STOMP_H_ID
								   : STOMP_H_MESSAGE_ID);
	if (f->rc < 0)
		return NULL;
	if (read_place(text, &channel, tag) && channel > 0 && channel < l->channel_cap)
		ch = l->channels[channel];
	if (!ch || ch->is_closing)
		f->rc = error_set(f->err, TIDE_ENOTFOUND,
				  "no message with the id '%.*s' was given to a "
				  "subscription of this connection",
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
	struct stomp_channel *ch = find_message(l, f, &range.last);
	struct reply *r;

	if (!ch || stomp_transaction_find(l, f, &spec.transaction) < 0)
		return f->rc;
	range.first = ch->is_cumulative ? 1 : range.last;
	if (f->verb == STOMP_NACK)
		read_nack(f, &spec);
	if (f->rc < 0)
		return f->rc;
	r = stomp_channel_reply(l, ch, f);
	f->rc = session_settle(stomp_channel_session(l, ch), &spec, r, f->err);
	if (f->rc == TIDE_ELEASE && !spec.transaction) {
		/* It was settled before. Of what somebody else has, the reply is an
		 * error. */
		f->rc = TIDE_OK;
		reply_ok(r);
	}
	return f->rc < 0 ? stomp_channel_fail(f, r) : TIDE_OK;
}
