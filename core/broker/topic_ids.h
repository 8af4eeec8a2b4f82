/* topic_ids.h: what a topic has seen: a second publish with the same id is not appended.
 *
 * A topic decides for all its partitions, as a queue does for its shards. The append that
 * writes a message writes its id too: a crash leaves both or none. Until then the id is
 * pending: a repeated publish succeeds or fails with the first. A refused append makes
 * the topic forget the id. */
#pragma once

#include "shard/publish_ids.h"

struct topic;
struct topic_ids_append;

TAILQ_HEAD(topic_ids_appends, topic_ids_append);

struct topic_ids {
	struct publish_ids ids;
	struct topic *topic;
	struct topic_ids_appends appends; /* whose ids are pending */
};

struct topic_ids *topic_ids_create(struct topic *t);
/* The topic is about to close its partitions: it forgets everything. */
void topic_ids_close(struct topic_ids *ids_take);

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

/* For broker.c: the pool of what is pending. */
void topic_ids_init_pool(struct pool *p);
