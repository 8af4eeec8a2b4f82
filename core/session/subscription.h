/* subscription.h: a channel's side of a consumer that is a subscription. */
#pragma once

#include "base/container.h"
#include "base/table.h"
#include "broker/consumer.h"

struct channel;
struct reply;

struct subscription {
	struct consumer consumer;
	TAILQ_ENTRY(subscription) channel_link;
	struct channel *channel;
	UT_hash_handle hh; /* by sid, in the channel's hash */
	char *sid;
	struct reply *confirm;  /* the OK of its SUB has not left: nothing may come */
	bool is_told_active;    /* what its client knows: see consumer_ops.on_active */
	uint32_t told_lease_ms; /* likewise: on_updated */
	/* It has ended, and is freed when the last message it was given is settled. */
	bool is_gone;
};

TAILQ_HEAD(subscription_list, subscription);

static inline struct subscription *subscription_of(const struct consumer *c)
{
	return container_of(c, struct subscription, consumer);
}

/* One of the channel, in no queue yet. */
struct subscription *subscription_create(struct channel *ch, struct slice sid);
/* It takes nothing more. */
void subscription_leave(struct subscription *sub);
/* End it: what it holds stays with the channel, and refers to it until it is settled. */
void subscription_destroy(struct subscription *sub);
/* The OK of its SUB has left: its messages may come. */
void subscription_confirmed(struct subscription *sub);
/* Its client may be told whether it is the active one of its queue, unless it knows. */
void subscription_tell_active(struct subscription *sub);
/* Likewise of a topic: of the partitions that it has. */
void subscription_tell_assigned(struct subscription *sub);
/* Likewise: of the lease that it has from now on. */
void subscription_tell_lease(struct subscription *sub);
/* Messages that it was given are no longer held. It may be freed by the call. */
void subscription_settled(struct consumer *c, uint32_t count);
