/* queue_limit.h: how much may wait in a queue: max-length= and max-bytes= of DECLARE.
 *
 * What is ready or delayed counts, in memory and in Redis, over all shards. What
 * consumers hold, or what is buried, does not. */
#pragma once

#include "queue.h"

struct queue_limit {
	uint64_t messages;
	uint64_t bytes; /* of payloads */
};

static inline bool queue_limit_has(const struct queue *q)
{
	return q->config.max_length || q->config.max_bytes;
}

/* What counts now. The bytes are those of all only if max-bytes= is given. */
struct queue_limit queue_limit_waiting(const struct queue *q);
/* It would be over a limit with so much more. */
bool queue_limit_is_over(const struct queue *q, struct queue_limit more);
/* With so much more it is over a limit, without what Redis may still refuse: that must
 * not cost a message that is confirmed. */
bool queue_limit_has_excess(const struct queue *q, struct queue_limit more);
/* How many messages that are; 0 also when their bytes are limited. */
uint64_t queue_limit_excess(const struct queue *q);
/* How many have to go, at least. When bytes are limited: half of what their mean size
 * says, and one in any case. 0: there is no excess. */
uint64_t queue_limit_over(const struct queue *q);
/* TIDE_EFULL, with what there is and what is allowed. */
int queue_limit_refuse(const struct queue *q, struct queue_limit more, struct error *err);
