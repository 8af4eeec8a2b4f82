/* topic.h: a topic: a destination whose messages stay when they are read.
 *
 * A topic is a struct queue whose messages lie in partitions instead of shards: name,
 * definition, options, bindings and strategies (sharding, retry) are those of the queue,
 * and routes lead to it in the same way. queue->topic is NULL for a queue proper.
 *
 * Partitions are made when they are first used, as shards are. */
#pragma once

#include "base/duration.h"
#include "log/partition.h"
#include "shard/publish_ids.h"

struct group_set;
struct queue;
struct retention_topic;
struct topic_ids;
struct topic;
struct waiter;

/* The hooks by which a topic tells its readers: group.h. */
struct topic_hooks {
	/* At the start: Redis has a group that has committed. */
	void (*on_group)(struct partition *p, struct slice group, uint64_t committed);
	/* It has more partitions now than it had. */
	void (*on_widen)(struct topic *t, unsigned had);
	/* The topic goes. Its consumers have gone already. */
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

struct topic;
struct topic_ids_append;

TAILQ_HEAD(topic_ids_appends, topic_ids_append);

struct topic_ids {
	struct publish_ids ids;
	struct topic *topic;
	struct topic_ids_appends appends; /* whose ids are pending */
};

struct topic_ids_publish {
	struct dedupe_key key;
	int64_t window_ms; /* above 0 */
	unsigned partition;
	const struct msg *msg;
};
/* Where the message is, or the first one with its publish id. */
struct topic_ids_place {
	uint64_t msg_id;
	uint64_t offset;
	unsigned partition;
};
/* As partition_append. False: a duplicate; the waiter, if any, is told when the first one
 * is durable. */
bool topic_ids_publish(struct topic_ids *ids, const struct topic_ids_publish *p,
		       struct waiter *waiter, struct topic_ids_place *out);

/* For queue.c: the topic of a new queue, and its end (consumers are told before). */
struct topic *topic_create(struct queue *q);
void topic_destroy(struct topic *t);
void topic_be_defined(struct topic *t); /* as queue_be_defined */
/* Its options have more partitions now than it had: they are free for its groups. */
void topic_widen(struct topic *t, unsigned had);
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
/* The keys of that partition; NULL: nothing of it is kept, or it was never used. */
struct store_shard *topic_keys(const struct topic *t, unsigned index);
/* The offset that the next message of that partition gets. */
uint64_t topic_end(const struct topic *t, unsigned index);
struct topic_sum topic_sum(const struct topic *t);
/* The partition's topic. */
static inline struct topic *topic_of(const struct partition *p)
{
	return partition_owner(p);
}

/* For broker.c: the pool of what is pending. */
void topic_ids_init_pool(struct pool *p);

/* Drop what lies before the position; POSITION_NONE: all that can be read. Groups that
 * have not read it are told as they come there, whatever keep-unread says.
 *
 * @param index   of the partition; -1: all
 * @param waiter  is told when Redis has dropped it
 * @param count   of the messages: it grows until the waiter is told */
void topic_purge(struct topic *t, const struct position *before, int64_t index,
		 struct waiter *waiter, uint64_t *count);
