/* channel.h: an independent conversation inside a connection: its own
 * subscriptions, delivery tags and order of replies. */
#pragma once

#include "broker/lock.h"
#include "base/container.h"
#include "base/table.h"
#include "broker/getter.h"
#include "held.h"
#include "reply.h"

struct channel;
struct session_transaction;
struct session;
struct trace;

/* A channel's side of a consumer that is a subscription. */
struct subscription {
	struct consumer consumer;
	TAILQ_ENTRY(subscription) channel_link;
	struct channel *channel;
	UT_hash_handle hh; /* by sid, in the channel's hash */
	char *sid;
	struct reply *confirm;  /* the OK of its SUB has not left: nothing may come */
	bool is_told_active;    /* what its client knows: see consumer_ops.on_active */
	uint32_t told_lease_ms; /* likewise: on_updated */
	/* The subscription has ended, and is freed when the last message it was given
	 * is settled. */
	bool is_gone;
};

TAILQ_HEAD(subscription_list, subscription);

static inline struct subscription *subscription_of(const struct consumer *c)
{
	return container_of(c, struct subscription, consumer);
}

/* One of the channel, in no queue yet. */
struct subscription *subscription_create(struct channel *ch, struct slice sid);
/* End it: what it holds stays with the channel, and refers to it until it is settled. */
void subscription_destroy(struct subscription *sub);
/* The OK of its SUB has left: its messages may come. */
void subscription_confirmed(struct subscription *sub);
/* Tell the client whether it is the active one of its queue, unless it knows. */
void subscription_tell_active(struct subscription *sub);
/* Likewise of a topic: of the partitions that it has. */
void subscription_tell_assigned(struct subscription *sub);
/* Likewise: of the lease that it has from now on. */
void subscription_tell_lease(struct subscription *sub);

/* A channel's side of a GET: the reply that waits, and what it gathers. */
struct fetch {
	struct getter getter;
	TAILQ_ENTRY(fetch) channel_link;
	struct channel *channel;
	struct reply *reply;
	bool is_read; /* of a topic, without a group: counted in the session */
	struct msg_match match;
	struct delivery *deliveries; /* getter.count of them */
	struct consumer consumers[];
};

TAILQ_HEAD(fetch_list, fetch);

static inline struct fetch *fetch_of(const struct getter *g)
{
	return container_of(g, struct fetch, getter);
}

/* One of the channel with so many consumers, in no queue yet. The getter's
 * on_answer ends it. */
struct fetch *fetch_create(struct channel *ch, unsigned consumer_count, struct reply *r);
/* Forget it; its reply is the caller's. */
void fetch_drop(struct fetch *f);
/* The fetch ends with an error, unless it was given something already. */
void fetch_refuse(struct fetch *f, const struct error *why);

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

/* A closed channel that owes no reply any more is forgotten by its session, and freed. */
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
/* Why the tag cannot be settled: TIDE_ENOTFOUND, TIDE_ELEASE. */
int channel_refuse_tag(const struct channel *ch, uint64_t tag, struct error *err);
/* The entry, which a channel holds, is no longer held: tag and credit come back. */
void channel_release(struct entry *e);

/* The holder of the message, as a member "holder": connection, channel, sid ("-": a
 * GET took it), tag, and until when. Without a holder no member is written. */
void channel_write_holder(const struct entry *e, struct json *out);
