/* reshard.h: another number of shards for a queue that is in use.
 *
 * No message moves. New ones are placed by the new number; those that are there stay in
 * their shards, which are *mixed* until they have been empty once. While one is, the
 * queue deals its messages in the order that they would have in a single shard: so those
 * of one key keep theirs, whatever shards they are in. */
#pragma once

#include "base/error.h"
#include "base/waiter.h"

struct queue;

/* Redis is told first, since a start reads the shards that the definition names: until it
 * has confirmed, the number is the old one. The waiter is told. TIDE_EBUSY;
 * TIDE_EMISMATCH for a queue with groups. */
TIDE_MUST_USE int reshard(struct queue *q, unsigned shards, struct waiter *waiter,
			  struct error *err);
