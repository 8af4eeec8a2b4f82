/* cursor.h: reads a partition from an offset on: from the tail where it is there, else
 * from Redis, a piece of whole batches at a time, the next of which is asked for before
 * the last one is used up.
 *
 * A cursor holds at most CURSOR_BYTES, and a batch. It waits for nothing: when what it
 * needs is not there, partition_ops.on_news comes later. */
#pragma once

#include "partition.h"

#define CURSOR_BYTES ((size_t)1 << 20)

struct cursor; /* closed: cursor.c */

struct cursor *cursor_create(struct partition *p, uint64_t offset);
/* For who reads beside those that on_news is for: on_ready takes its place, and also
 * tells that the partition was closed while something was read. */
struct cursor *cursor_create_for(struct partition *p, uint64_t offset,
				 void (*on_ready)(void *ctx), void *ctx);
/* Accepts NULL. */
void cursor_destroy(struct cursor *c);

/* The next record, and the batch that it lies in (borrowed). The view is good until the
 * next call for this cursor. Its offset may be larger than cursor_offset was: what lies
 * between is no longer kept, by retention or compaction.
 *
 * @return TIDE_OK; TIDE_EMPTY: that was all, or the partition is closed; TIDE_AGAIN: it
 * is being read, on_news comes; TIDE_ESTORE: it cannot be read now, it was logged,
 *         on_news comes when a call tries again */
int cursor_next(struct cursor *c, struct record *out, struct record_batch **batch);
/* The offset that cursor_next looks for. */
uint64_t cursor_offset(const struct cursor *c);
/* All that can be read has been, or the partition is closed. */
bool cursor_is_at_end(const struct cursor *c);
/* Go on from there. Cheap when it is the offset that it is at, or the one that it was
 * asked for: it may be behind a gap since then. */
void cursor_seek(struct cursor *c, uint64_t offset);

/* For partition_flush: those that a read has failed for are told when they may try again.
 */
void cursor_wake_failed(struct partition_env *env);
/* When; 0: nobody waits. */
int64_t cursor_failed_due_ms(const struct partition_env *env);
