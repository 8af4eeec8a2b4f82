/* fetch.h: a channel's side of a GET: the reply that waits, and what it gathers. */
#pragma once

#include "base/container.h"
#include "base/msg.h"
#include "broker/getter.h"

struct channel;
struct delivery;
struct reply;

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
/* It ends with an error, unless it was given something already. */
void fetch_refuse(struct fetch *f, const struct error *why);
