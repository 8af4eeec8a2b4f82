/* merge.h: small batches that lie side by side in Redis become one, in the background.
 *
 * A batch costs Redis about 150 bytes besides its own: for a message that was appended
 * alone that is as much again. So 16 small batches of a day become one, 16 of those one,
 * and so on, up to RECORD_BATCH_BYTES: each message is written again a few times at
 * most. When a day has ended, what is left of it is merged too. The batches of a busy
 * producer are large from the start: they are left alone.
 *
 * Offsets, ids, times and order stay. A reader finds the batch that has an offset, before
 * as after; the tail keeps what it has. What Redis refuses is tried again later.
 *
 * A partition knows its small batches since it was opened: 16 bytes each, some 200 of
 * them at most. */
#pragma once

#include "partition.h"

/* A batch of the day is in Redis. */
void merge_note(struct partition *p, uint32_t day, const struct record_batch *b);
/* The first offset that a merge may yet move; `readable` if there is none. */
uint64_t merge_begin(const struct partition *p);
/* The partition is being closed: nothing is merged any more. */
void merge_stop(struct partition *p);
void merge_free(struct partition *p);

/* For partition_flush: begin some of those that are due. */
void merge_flush(struct partition_env *env);
/* When it wants to be called; 0: at the end of a next turn, if at all. */
int64_t merge_due_ms(const struct partition_env *env);
