/* update.h: other options for a queue or a topic that is in use.
 *
 * All of them change at once, or none. Redis is told first: until it has confirmed, the
 * options are the old ones. Messages, consumers and publishers stay.
 *
 * With another number of shards, or another sharding, no message moves. New ones are
 * placed by the new options; those that are there stay in their shards, which are *mixed*
 * until they have been empty once. While one is, the queue deals its messages in the
 * order that they would have in a single shard: so those of one key keep theirs, whatever
 * shards they are in. */
#pragma once

#include "base/error.h"
#include "base/waiter.h"

struct policy_watch;
struct queue;
struct queue_terms;

/* The waiter is told when it is done. One that could not be used for its options can be
 * then, with its messages: they have been read. The queue is not busy:
 * definition_is_busy. TIDE_EMISMATCH: an option cannot change, or a script refuses its
 * own. */
TIDE_MUST_USE int update_queue(struct queue *q, struct queue_terms *next_take,
			       struct waiter *waiter, struct error *err);
/* Ask the policies of one that exists again. What they cannot change stays, and the
 * log says so. */
void update_renew(struct queue *q);
/* Ask them for who looks on: nothing changes. */
void update_ask(const struct queue *q, const struct policy_watch *w);
/* At the start, before it has scripts and messages: likewise. */
void update_restored(struct queue *q);
