/* store_log.h: the log of a partition of a topic in Redis. Part of store.h, for its
 * floor's users that know logs; all that store.h says of requests holds.
 *
 * A partition has a sorted set of record batches (log/record.h; here they are bytes) for
 * each UTC day, scored by offset; a hash with what is known of its days; a hash with the
 * committed offset of each group. A day is a number: yyyymmdd. Days and offsets grow
 * together: no batch of a day has a smaller offset than one of the day before. Offsets
 * are 2^53 at most. The key names are those of a store_shard. */
#pragma once

#include "store.h"

struct store_log_batch {
	uint64_t base;
	struct slice bytes;
};

/* An append to a partition, as one request. The batches' bytes are borrowed until
 * on_done; the rest is copied. */
struct store_log_append {
	uint32_t day;
	const struct store_log_batch *batches; /* at least one, in order, of one day */
	unsigned count;                        /* at most STORE_LOG_BATCHES_MAX */
	/* Before: remove what is there from the first batch's offset on, whatever its
	 * day: an append was refused that may have been carried out. */
	const uint32_t *truncate_days;
	unsigned truncate_count;
	/* The first of its day: what the state says of it. */
	bool is_new_day;
	uint64_t position;
	int64_t first_ms;
	/* The state's upper bound of the bytes of a batch; 0: it stays. */
	uint64_t largest;
	/* Publish ids of its messages, encoded by store_dedupe_add_words: what is written
	 * has them, and what is refused has not. Copied. */
	struct slice seen;
	unsigned seen_count;
	/* Before, together with the truncation: ids of such refused appends. */
	struct slice unsure_seen;
	unsigned unsure_seen_count;
};
#define STORE_LOG_BATCHES_MAX 64
/* Redis took it all, or refused it: `is_unsure` as in struct batch_result. What is
 * refused and sure has written nothing; its truncation may have been carried out. */
typedef void (*store_log_done_fn)(void *ctx, int status, const char *text,
				  bool is_unsure);
void store_log_append(struct store *s, struct store_shard *partition,
		      const struct store_log_append *append, store_log_done_fn on_done,
		      void *ctx);

/* The same as a part of a transaction (store.h), which answers for it. All is copied. */
void store_log_join(struct store_transaction *t, struct store_shard *partition,
		    const struct store_log_append *append);

/* In the place of the batches of a day with offsets from `from` to `to`, both of them
 * batches, these: one MULTI ... EXEC. Their bytes are copied. None is larger than the
 * state's bound. With none they are removed. */
struct store_log_replace {
	uint32_t day;
	uint64_t from, to;
	const struct store_log_batch *batches;
	unsigned count;
};
void store_log_replace(struct store *s, struct store_shard *partition,
		       const struct store_log_replace *replace, store_done_fn on_done,
		       void *ctx);

/* The batch of a day that has the offset or, where none has it, the last before it; then
 * those that follow; `count` at most, and STORE_LOG_READ_MAX. The rows are the store's.
 * Members whose score is no offset are logged and left out. */
#define STORE_LOG_READ_MAX 1024
typedef void (*store_log_rows_fn)(void *ctx, int status, const char *text,
				  const struct store_log_batch *rows, size_t count);
void store_log_read(struct store *s, struct store_shard *partition, uint32_t day,
		    uint64_t offset, unsigned count, store_log_rows_fn on_rows,
		    void *ctx);
/* Remove the days, whole, and all batches of `day` below `start` (0: of none): the log
 * begins at `start`, which the state says from now on. All at once, and also while memory
 * is out. The batch that has `start` stays, and the last one of `day`, which tells where
 * the log ends. What the state says of `day` stays: its first batch was there.
 *
 * Of `day` 256 batches go at a time, so that Redis is not busy with it for long. The
 * count is of those that are left: another trim is needed. */
struct store_log_trim {
	uint64_t start;
	const uint32_t *days;
	unsigned day_count;
	uint32_t day;
};
void store_log_trim(struct store *s, struct store_shard *partition,
		    const struct store_log_trim *trim, store_purged_fn on_trimmed,
		    void *ctx);

/* The content of the state. `days` in order. */
struct store_log_day {
	uint32_t day;
	uint64_t base; /* of its first batch, like the rest; perhaps it was trimmed */
	uint64_t position;
	int64_t first_ms;
};
struct store_log_group {
	struct slice name;
	uint64_t committed;
};
struct store_log_state {
	uint64_t start;
	uint64_t largest;
	const struct store_log_day *days;
	size_t day_count;
	const struct store_log_group *groups;
	size_t group_count;
	/* The last batch of the last day that has one; .bytes.data is NULL without. */
	struct store_log_batch last;
};
/* The state is the store's. Fields that cannot be read are logged and left out. A day
 * may have no batch: its first append was refused. */
typedef void (*store_log_state_fn)(void *ctx, int status, const char *text,
				   const struct store_log_state *state);
/* May take a few round trips. */
void store_log_recover(struct store *s, struct store_shard *partition,
		       store_log_state_fn on_state, void *ctx);

/* Committed offsets of groups; or, with is_removal, forget the groups. on_done may be
 * NULL.
 */
struct store_log_commit {
	const struct store_log_group *groups;
	size_t count; /* 1 or more */
	bool is_removal;
};
void store_log_commit(struct store *s, struct store_shard *partition,
		      const struct store_log_commit *commit, store_done_fn on_done,
		      void *ctx);
