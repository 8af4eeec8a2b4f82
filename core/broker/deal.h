/* deal.h: who gets the next message of a queue. */
#pragma once

#include "getter.h"
#include "queue.h"

/* The hooks by which the shards tell their queue. */
extern const struct shard_ops deal_shard_ops;

/* Deal out what is ready to those who can take it. Gives whether there is
 * more to do at once. */
bool deal_queue(struct queue *q);

/* Give a message to a GET that is in no queue's list, and end it. The entry may be in any
 * stage, or moving. TIDE_EDENIED, TIDE_EBUSY, TIDE_ERULE: a script of deliver/ refuses or
 * delays it, or fails; nothing has changed. */
TIDE_MUST_USE int deal_take(struct queue *q, struct getter *g, struct entry *e,
			    struct error *err);

/* The time of a GET is over: it takes what is there now, up to its `max`. When
 * Redis is just being asked for more it waits for that. */
void deal_answer(struct getter *g);
