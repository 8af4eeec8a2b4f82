/* shard_index.h: the entries of a shard by the ids of their messages.
 *
 * It is made when somebody asks for a message by its id, and dropped when nobody has
 * asked for a while: a shard that is never asked pays one test at each step of a message.
 *
 * It is built bit by bit, by a walk through all places where entries are. One that leaves
 * its place before the walk comes by is added then; so is a new one. What is gone or on
 * its way out may be missing. */
#pragma once

#include "shard.h"

/* Add some of what is missing. True when nothing is: then shard_index_find may be asked.
 * @param max  entries to look at */
TIDE_MUST_USE bool shard_index_build(struct shard *sh, unsigned max);
/* The entry with that id, whatever its state; NULL when memory has none. */
struct entry *shard_index_find(const struct shard *sh, uint64_t id);
/* Forget some: nobody has asked for a while. The last call frees it. Harmless when there
 * is none. */
void shard_index_drop(struct shard *sh, unsigned max);
/* The shard is freed, and has no entry any more. */
void shard_index_destroy(struct shard *sh);
/* When it is to be dropped; 0: there is none. */
int64_t shard_index_due_ms(const struct shard *sh);
