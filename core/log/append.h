/* append.h: what has gathered for a partition and is written at once: record batches of
 * one day, and who waits for them.
 *
 * A partition opens one with its first message and fills it; it flies, and lands or is
 * refused. Their memory is used again: env->spare. */
#pragma once

#include "partition.h"

struct append {
	STAILQ_ENTRY(append) link; /* of the partition, or of env->spare */
	uint32_t day;
	int64_t day_end_ms; /* the first time of the next day */
	struct record_writer writer;
	struct record_batch *batches[STORE_LOG_BATCHES_MAX];
	unsigned batch_count;
	struct waiter **waiters;
	size_t waiter_count, waiter_cap;
	uint64_t messages;
	size_t bytes;    /* of the records: they count in env->unstored_bytes */
	size_t largest;  /* of the batches */
	struct buf seen; /* the publish ids that are written with it */
	unsigned seen_count;
	bool is_flying;
	struct joint *joint; /* that it is a part of; NULL: none */
};

/* The midnight, UTC, that comes after that time. */
int64_t append_day_end_ms(int64_t ms);
struct append *append_open(struct partition_env *env, int64_t ms);
void append_free_spare(struct partition_env *env);
/* No more may be added: it is written as it is. */
bool append_is_full(const struct append *a);
/* The batch that is open, if one is, is done. Gives its bytes. */
size_t append_end_batch(struct append *a);
/* Add a message to the batch that is open. */
void append_add(struct partition_env *env, struct append *a, const struct msg *m,
		int64_t ms, struct waiter *waiter);
/* Its publish id, with its offset. */
void append_add_seen(struct partition_env *env, struct append *a,
		     const struct store_seen *seen);
/* Tell those who wait; the append is gone then. The text may be NULL. */
void append_tell(struct partition_env *env, struct append *a, int status,
		 const char *text);
