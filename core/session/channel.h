/* channel.h: an independent conversation inside a connection: its own
 * subscriptions, delivery tags and order of replies. */
#ifndef TIDE_SESSION_CHANNEL_H
#define TIDE_SESSION_CHANNEL_H

#include "base/table.h"
#include "broker/consumer.h"
#include "held.h"
#include "reply.h"

struct session;

struct channel {
	UT_hash_handle hh;
	struct session *session;
	unsigned number;
	struct reply_list replies; /* not yet sent, in the order of the requests */
	struct held held;
	struct consumer_list consumers; /* subscriptions and GETs */
	struct consumer *by_sid;        /* uthash: the subscriptions */
	bool is_closing; /* closed, and forgotten when its last reply has left */
};

void channel_init(struct channel *ch, struct session *s, unsigned number);
/* Ends its consumers, returns what it holds: it is as good as new, but for the
 * replies that it owes. */
void channel_end(struct channel *ch);
/* Likewise, and drops its replies. */
void channel_deinit(struct channel *ch);

/* The subscription of that name, or NULL. */
struct consumer *channel_consumer(struct channel *ch, struct slice sid);
/* A subscription, or a GET where `sid` is empty. */
struct consumer *channel_add_consumer(struct channel *ch, struct slice sid);
/* Its replies will not be sent; those not finished complete unseen. */
void channel_drop_replies(struct channel *ch);
/* Send the finished replies at the front. */
void channel_flush(struct channel *ch);

/* End a consumer: what it holds stays with the channel, and refers to it until
 * it is settled. */
void consumer_destroy(struct consumer *c);

/* Hand a message to a consumer: a tag, a line on its connection, credit used. */
void consumer_deliver(struct consumer *c, struct entry *e);
/* The entry is no longer held by its channel: tag and credit come back. */
void channel_release(struct entry *e);

#endif
