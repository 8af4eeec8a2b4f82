/* shard_tail.h: the end of a shard's ready or delayed messages: those that would be
 * delivered last. */
#pragma once

#include "shard.h"

/* Memory does not have all of them: Redis is to be asked. */
bool shard_tail_is_far(const struct shard *sh, enum entry_state state);
/* The last one, unless that is far; NULL when there is none. */
struct entry *shard_tail_entry(const struct shard *sh, enum entry_state state);
/* The next one that was durable before and comes back to this state: Redis does not know
 * its place yet. @param e  the one before; NULL: the first */
const struct entry *shard_tail_next_unsettled(const struct shard *sh,
					      enum entry_state state,
					      const struct entry *e);
/* Read the ids and places of the last ones of a durable shard, `count` at most (1–4096).
 * Some may be in another state by now. */
void shard_tail_read(struct shard *sh, enum entry_state state, unsigned count,
		     store_rows_fn on_rows, void *ctx);
