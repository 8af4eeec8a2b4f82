/* channel.h: an independent conversation inside a connection: its own
 * subscriptions, delivery tags and order of replies. */
#pragma once

#include "broker/lock.h"
#include "fetch.h"
#include "held.h"
#include "lapsed.h"
#include "reply.h"
#include "subscription.h"

struct session_transaction;
struct session;
struct trace;

struct channel {
	UT_hash_handle hh;
	struct session *session;
	unsigned number;
	struct reply_list replies;      /* not yet sent, in the order of the requests */
	struct reply_aside_list asides; /* that are in no order */
	struct holder holder;           /* who its messages are held by */
	struct held held;
	struct lapsed lapsed; /* what was held, until a lease ended */
	struct lock_holder locks;
	struct credit credit; /* of its subscriptions together */
	struct subscription_list subscriptions;
	struct subscription *by_sid;             /* uthash */
	struct fetch_list fetches;               /* GETs that wait */
	struct trace *trace;                     /* NULL: it follows no messages */
	struct session_transaction *transaction; /* between BEGIN and its end, or NULL */
	bool is_closing; /* closed, and forgotten when its last reply has left */
};

void channel_init(struct channel *ch, struct session *s, unsigned number);
/* Return its messages: the consumer has gone. If its connection broke, the message that
 * it was at work on has failed. */
void channel_return_held(struct channel *ch);
/* End its subscriptions and return its messages. The replies that it owes remain. */
void channel_end(struct channel *ch);
/* Likewise, and drops its replies. */
void channel_deinit(struct channel *ch);

/* It is closed and owes no reply any more: its session forgets it, and it is freed. */
void channel_forget(struct channel *ch);

/* The subscription of that name, or NULL. */
struct subscription *channel_subscription(struct channel *ch, struct slice sid);
/* A consumer of the channel is given the message. Unless it is acknowledged by that, the
 * channel holds it. */
static inline struct delivery channel_hand_out(struct channel *ch, struct consumer *c,
					       struct entry *e, struct msg *head,
					       bool is_redelivered)
{
	struct delivery d = { .msg = e->msg,
			      .head = head,
			      .attempt = e->failures + 1,
			      .is_redelivered = is_redelivered };

	if (c->is_auto_ack) {
		e->tag = 0;
	} else {
		d.tag = held_add(&ch->held, e);
		lease_add(consumer_lease(c), e);
	}
	return d;
}
/* The same for a message of a topic. The message is the record's own. */
static inline struct delivery channel_delivery(const struct record_delivery *r)
{
	return (struct delivery){
		.msg = (struct msg *)&r->record->msg, /* a view: nobody keeps it */
		.tag = r->tag,
		.attempt = r->attempt,
		.is_redelivered = r->is_redelivered,
		.has_offset = true,
		.partition = (uint16_t)r->partition,
		.offset = r->record->offset,
	};
}
/* Messages of a partition that are no longer kept, from `from` to before `to`. */
struct channel_gap {
	unsigned partition;
	uint64_t from, to;
};
/* Who reads it is told that it goes on behind them. */
void channel_tell_skipped(struct channel *ch, const char *sid,
			  const struct channel_gap *gap);
/* Why the tag cannot be settled: TIDE_ENOTFOUND, TIDE_ELEASE. */
int channel_refuse_tag(const struct channel *ch, uint64_t tag, struct error *err);
/* The entry, which a channel holds, is no longer held: tag and credit come back. */
void channel_release(struct entry *e);

/* Who holds the message, as a member "holder": connection, channel, sid ("-": a GET took
 * it), tag, and until when. Nothing when nobody does. */
void channel_write_holder(const struct entry *e, struct json *out);
