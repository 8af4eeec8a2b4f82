/* partition_private.h: what the files of this floor know of a partition. */
#pragma once

#include "base/duration.h"
#include "partition.h"

/* The midnight, UTC, that comes after that time. */
int64_t append_day_end_ms(int64_t ms);
void append_free_spare(struct partition_env *env);
/* The first append is on its way to Redis. */
bool append_is_flying(const struct partition *p);
/* Send what has gathered, unless appends are under way; without keys all of it lands. */
void append_flush(struct partition_env *env);

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

/* The knowledge of a day. Its batches have offsets from `base` to that of the next
 * day. */
struct partition_day {
	uint32_t day;  /* yyyymmdd */
	bool is_going; /* a trim that is under way removes it */
	uint64_t base, position;
	int64_t first_ms;
};

struct partition {
	struct partition_env *env;
	void *owner;
	struct store_shard *keys;
	TAILQ_ENTRY(partition) dirty_link; /* of its lane, or env->unkept */
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
	uint16_t lane;                      /* in whose list it is */
	TAILQ_ENTRY(partition) flying_link; /* of the lane that has its append */
	bool is_held; /* Redis does not have the definition of the topic yet */
	STAILQ_HEAD(, held_commit) held; /* meanwhile */
	bool is_trim_refused;            /* Redis does not know `start` */
};

static inline struct partition *partition_ref(struct partition *p)
{
	p->refs++;
	return p;
}
void partition_unref(struct partition *p);
/* Appends of the lane are under way that do not wait for a slot of their own. */
bool append_is_busy(const struct partition_env *env, const struct partition_lane *lane);
/* Fail the appends that do not fly: their offsets are given out again. */
void partition_fail(struct partition *p, int status, const char *text);
void partition_add_day(struct partition *p, const struct partition_day *day);
/* The last one that no trim removes, or NULL. */
const struct partition_day *partition_last_day(const struct partition *p);
/* Where Redis has an offset: the last day that begins at or before it; else the first. */
const struct partition_day *partition_day_of(const struct partition *p, uint64_t offset);

/* Where the first day behind this one begins, `most` at most. */
uint64_t partition_next_day_base(const struct partition *p, uint32_t day, uint64_t most);

/* Send the commits that were held. */
void partition_send_held(struct partition *p);

/* Something to be done by partition_flush: a completion does not run before the call that
 * asks for it has returned. `partition` is referenced. */
struct partition_call {
	STAILQ_ENTRY(partition_call) link;
	struct partition *partition;
	void (*run)(struct partition_call *call); /* frees it */
};
void partition_call_later(struct partition *p, struct partition_call *call,
			  void (*run)(struct partition_call *call));
