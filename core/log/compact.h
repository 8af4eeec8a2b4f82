/* compact.h: of a partition only the last message of each key is kept.
 *
 * A pass reads what has been appended since the last one, and notes where each key was
 * seen last. Then it goes over the partition from its start, and writes batches again
 * without the messages that have a later one of their key. A message without
 * payload says that its key is gone: it goes itself a day after its append. Messages
 * without a key stay. Offsets never change: there are gaps.
 *
 * A pass begins when as much has been appended as the last one has kept, and 1 MiB at
 * least: each message is written again a few times at most, and the partition has no more
 * than twice what must be kept, and that. After a start everything counts as appended.
 *
 * One partition of the broker has its pass at a time, COMPACT_BYTES_PER_S are read at
 * most, and keys take COMPACT_KEY_BYTES at most: with more of them a pass ends earlier,
 * and the next one goes on there. The newest batches are left alone. What Redis refuses
 * ends the pass; it begins again later. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"
#include "partition.h"

#define COMPACT_LEAST_BYTES ((uint64_t)1 << 20)
#define COMPACT_KEY_BYTES ((size_t)64 << 20)
#define COMPACT_BYTES_PER_S (32 << 20)
#define COMPACT_TOMBSTONE_MS (INT64_C(24) * 3600 * 1000)

/* From now on. The partition is new. Without keys (durable=0) nothing is done. */
void compact_enable(struct partition *p);
/* The first offset that no pass has seen yet; 0: none has ended. */
uint64_t compact_end(const struct partition *p);

/* For the other files of the floor. Something has landed, or was read at the start. */
void compact_note(struct partition *p);
/* Of `bytes`, which were appended, those that are kept, as far as it is known. */
uint64_t compact_bytes(const struct partition *p, uint64_t bytes);
/* The partition is being closed. */
void compact_stop(struct partition *p);
void compact_free(struct partition *p);
/* For partition_flush: go on, if it is time. */
void compact_flush(struct partition_env *env);
/* When it wants to be called; 0: at the end of a next turn, if at all. */
int64_t compact_due_ms(const struct partition_env *env);

/* Where each key was seen last: keys and offsets, in bounded memory.
 *
 * It is exact: keys are compared, not their hashes alone. */
struct key_index;

/* @param keys_max   how many keys will come at most, as far as it is known
 * @param bytes_max  of its memory */
struct key_index *key_index_create(uint64_t keys_max, size_t bytes_max);
/* Accepts NULL. */
void key_index_destroy(struct key_index *k);
/* Keys are at most NAME_LEN_MAX long. False: it is full, nothing was noted. */
bool key_index_put(struct key_index *k, struct slice key, uint64_t offset);
/* False: the key is not in it. */
bool key_index_find(const struct key_index *k, struct slice key, uint64_t *offset);

/* Small batches that lie side by side in Redis become one, in the background.
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

/* A batch of the day is in Redis. */
void merge_note(struct partition *p, uint32_t day, const struct record_batch *b);
/* The partition is being closed: nothing is merged any more. */
void merge_stop(struct partition *p);
void merge_free(struct partition *p);

/* For partition_flush: begin some of those that are due. */
void merge_flush(struct partition_env *env);
/* When it wants to be called; 0: at the end of a next turn, if at all. */
int64_t merge_due_ms(const struct partition_env *env);
