/* overflow_tail.h: the last messages of a queue that is over a limit, when Redis has
 * some of them.
 *
 * If they need not be read, they are trimmed. Else Redis is asked for the last places of
 * each shard; memory knows those of messages that come back and are not written yet. Of
 * all of them the last ones are taken by their ids, as many as are too much, and given
 * up. That is a round; as long as there is too much, the next turn begins another one. */
#pragma once

#include "shard/entry.h"

struct queue;

struct overflow_tail_ops {
	/* As shard_trim, of the queue. */
	bool (*trim)(struct queue *q, enum entry_state state);
	/* Has to move or remove the message, which nobody holds. */
	void (*give_up)(struct queue *q, struct entry *e);
};

/* Begin a round, unless one is under way. The queue is activated by its end. `ops`
 * outlive it. */
void overflow_tail_begin(struct queue *q, enum entry_state state,
			 const struct overflow_tail_ops *ops);
