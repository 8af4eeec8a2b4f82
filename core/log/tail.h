/* tail.h: the newest batches of a partition, in memory, in the order of their offsets
 * and without a gap up to what can be read.
 *
 * Each has a number, which it keeps: readers find the next one by it. */
#pragma once

#include "partition.h"

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
