/* topic.h: a topic: a destination whose messages stay when they are read.
 *
 * A topic is a struct queue whose messages lie in partitions instead of shards: name,
 * definition, options, bindings and strategies (sharding, retry) are those of the queue,
 * and routes lead to it in the same way. queue->topic is NULL for a queue proper.
 *
 * Partitions are made when they are first used, as shards are. */
#pragma once

#include "log/partition.h"

struct group_set;
struct queue;
struct retention_topic;
struct topic_ids;
struct topic;
struct waiter;

/* What a topic tells those that read it: group.h. */
struct topic_hooks {
	/* At the start: Redis has a group that has committed. */
	void (*on_group)(struct partition *p, struct slice group, uint64_t committed);
	/* It goes. Its consumers have gone already. */
	void (*on_close)(struct topic *t);
};

struct topic {
	struct queue *queue;
	struct partition **partitions;     /* config.shards of them; NULL: never used */
	TAILQ_ENTRY(topic) link;           /* of all the broker's */
	struct topic_ids *ids;             /* of publishes that it has seen */
	struct retention_topic *retention; /* NULL: nothing was to be dropped */
	struct group_set *groups;          /* of topic_hooks; NULL: nobody reads it */
};

/* Of all its partitions together. */
struct topic_sum {
	uint64_t start; /* messages that are no longer kept */
	uint64_t end;   /* that were ever appended */
	uint64_t bytes;
};

/* For queue.c: the topic of a new queue, and its end (consumers are told before). */
struct topic *topic_create(struct queue *q);
void topic_destroy(struct topic *t);
/* As queue_recover, and queue_drop_unused. */
void topic_recover(struct topic *t, struct waiter *waiter);
void topic_drop_unused(struct topic *t);

/* Make the partition of that number, which is not there. */
struct partition *topic_make_partition(struct topic *t, unsigned index);
/* The partition of that number, below config.shards; it is made if it is new. */
static inline struct partition *topic_partition(struct topic *t, unsigned index)
{
	struct partition *p = t->partitions[index];

	return p ? p : topic_make_partition(t, index);
}
/* The offset that the next message of that partition gets. */
uint64_t topic_end(const struct topic *t, unsigned index);
struct topic_sum topic_sum(const struct topic *t);
/* The partition's topic. */
static inline struct topic *topic_of(const struct partition *p)
{
	return partition_owner(p);
}
