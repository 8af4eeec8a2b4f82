/* partition_private.h: what the files of this floor know of a partition. */
#pragma once

#include "base/duration.h"
#include "partition.h"

/* What has gathered for a partition and is written at once: record batches of
 * one day, and who waits for them.
 *
 * A partition opens one with its first message and fills it; it flies, and lands or is
 * refused. Their memory is used again: env->spare. */
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

/* The newest batches of a partition, in memory, in the order of their offsets
 * and without a gap up to what can be read.
 *
 * Each has a number, which it keeps: readers find the next one by it. */
struct tail_batch {
	TAILQ_ENTRY(tail_batch) link; /* of env->tail, if the partition has keys */
	struct partition *partition;
	struct record_batch *batch;
};

struct tail {
	struct tail_batch **ring;
	uint64_t first; /* the number of the oldest one */
	uint32_t count, cap;
	size_t bytes; /* of the batches, and what they cost beside */
};

/* A reference is taken. */
void tail_push(struct partition *p, struct record_batch *b);
/* The oldest one goes. There is one. */
void tail_drop_first(struct partition *p);
void tail_clear(struct partition *p);
/* The oldest batches of all partitions go, until the limit is kept. */
void tail_shrink(struct partition_env *env);

/* The one of that number; NULL: it has gone, or has not come. */
static inline struct record_batch *tail_at(const struct tail *t, uint64_t number)
{
	return number - t->first < t->count ? t->ring[number & (t->cap - 1)]->batch
					    : NULL;
}

static inline struct record_batch *tail_first(const struct tail *t)
{
	return tail_at(t, t->first);
}

static inline struct record_batch *tail_last(const struct tail *t)
{
	return t->count ? tail_at(t, t->first + t->count - 1) : NULL;
}

/* The number of the batch that has the offset, which is no less than that of the first
 * one and less than the end of the last one. */
uint64_t tail_find(const struct tail *t, uint64_t offset);

/* After something failed, before it is tried again. */
#define PARTITION_RETRY_MS 200

/* What is known of a day. Its batches have offsets from `base` to that of the next day.
 */
struct partition_day {
	uint32_t day;  /* yyyymmdd */
	bool is_going; /* a trim that is under way removes it */
	uint64_t base, position;
	int64_t first_ms;
};

struct partition {
	struct partition_env *env;
	void *owner;
	struct store_log *keys;
	TAILQ_ENTRY(partition) dirty_link; /* of env->dirty or env->unkept */
	struct append_list appends;        /* in order; the first may be under way */
	struct append *open;               /* the last of them, if it takes more */
	struct joint *joint;               /* that is being built */
	struct tail tail;
	struct merge *merge;     /* NULL: it had no small batch yet */
	struct compact *compact; /* NULL: all its messages are kept */
	struct partition_day *days;
	uint32_t *unsure_days;  /* on which refused appends may have left something */
	struct buf unsure_seen; /* likewise: their publish ids */
	unsigned unsure_seen_count;
	uint64_t start, readable, end;
	/* Of batches, as record.h has it: the one that has `start`; what comes at
	 * `readable`; what comes next. */
	uint64_t first_position, position, next_position;
	uint64_t largest; /* an upper bound of a batch's bytes, as Redis knows it */
	int64_t last_ms;  /* of the last message that can be read */
	int64_t append_ms;
	uint32_t refs;
	uint16_t index, day_count, unsure_count;
	bool is_closed, is_dirty;
	bool is_trim_refused; /* Redis does not know `start` */
};

static inline struct partition *partition_ref(struct partition *p)
{
	p->refs++;
	return p;
}
void partition_unref(struct partition *p);
/* It fails: its offsets are given out again. */
void partition_fail(struct partition *p, int status, const char *text);
/* The same for one that does not fly, and all behind it. */
void partition_fail_from(struct partition *p, const struct append *first, int status,
			 const char *text);
/* It is, or is not, in the list of those that have something to send. */
void partition_set_dirty(struct partition *p, bool is_dirty);
/* The open append, if there is one, takes no more. */
void partition_close_append(struct partition *p);
/* What is told to Redis of an append. `before` is the one that is sent with it, in front
 * of it; or NULL. */
struct store_log_batch;
struct store_log_append partition_flush_form(const struct partition *p,
					     const struct append *a,
					     struct store_log_batch *batches,
					     const struct append *before);
/* Redis has the first append. */
void partition_flush_land(struct partition *p);
/* It has refused it: it fails, and all behind it. */
void partition_flush_refuse(struct partition *p, int status, const char *text,
			    bool is_unsure);
/* Where Redis has an offset: the last day that begins at or before it; else the first. */
const struct partition_day *partition_day_of(const struct partition *p, uint64_t offset);

/* Where the first day behind this one begins, `most` at most. */
uint64_t partition_next_day_base(const struct partition *p, uint32_t day, uint64_t most);

/* Something to be done by partition_flush: a completion does not run before the call that
 * asks for it has returned. `partition` is referenced. */
struct partition_call {
	STAILQ_ENTRY(partition_call) link;
	struct partition *partition;
	void (*run)(struct partition_call *call); /* frees it */
};
void partition_call_later(struct partition *p, struct partition_call *call,
			  void (*run)(struct partition_call *call));
