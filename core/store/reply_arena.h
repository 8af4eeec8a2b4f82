/* reply_arena.h: the memory of one reply of Redis.
 *
 * hiredis allocates each element of a reply, and its text, by itself: seven
 * allocations for a message that is read. Here they lie one behind the other
 * and are forgotten together, and the blocks serve the next reply. */
#pragma once

#include <hiredis/hiredis.h>
#include <stddef.h>

struct reply_block;

struct reply_arena {
	struct reply_block *used; /* the one that is being filled first */
	struct reply_block *spare;
	size_t spare_count;
};

void reply_arena_init(struct reply_arena *a);
void reply_arena_deinit(struct reply_arena *a);
/* A reader whose replies lie in `a`, which outlives it.
 * They are not to be freed: see reply_arena_reset. */
redisReader *reply_arena_reader(struct reply_arena *a);
/* Forget the reply; not while the reader is in the middle of the next one. */
void reply_arena_reset(struct reply_arena *a);
