#include "topic.h"

#include "base/mem.h"
#include "broker.h"
#include "log/compact.h"
#include "queue.h"
#include "topic_ids.h"
#include "walk.h"

struct topic *topic_create(struct queue *q)
{
	struct topic *t = mem_zalloc(sizeof(*t));

	t->queue = q;
	t->partitions = mem_zalloc(q->config.shards * sizeof(struct partition *));
	TAILQ_INSERT_TAIL(&q->vhost->broker->topics, t, link);
	t->ids = topic_ids_create(t);
	q->ids = &t->ids->ids;
	return t;
}

static void close_partition(struct topic *t, unsigned index)
{
	if (t->partitions[index])
		partition_close(t->partitions[index]);
	t->partitions[index] = NULL;
}

static const struct topic_hooks *hooks_of(const struct topic *t)
{
	return t->queue->vhost->broker->topic_hooks;
}

void topic_destroy(struct topic *t)
{
	topic_ids_close(t->ids);
	hooks_of(t)->on_close(t);
	walk_leave_topic(t);
	TAILQ_REMOVE(&t->queue->vhost->broker->topics, t, link);
	for (unsigned i = 0; i < t->queue->config.shards; i++)
		close_partition(t, i);
	mem_free(t->partitions);
	mem_free(t);
}

struct partition *topic_make_partition(struct topic *t, unsigned index)
{
	struct queue *q = t->queue;
	struct store_log *keys = NULL;
	struct partition *p;

	if (queue_is_durable(q))
		keys = store_log_create(vhost_slice(q->vhost), queue_slice(q), index);
	p = partition_create(&q->vhost->broker->partitions, t, index, keys);
	if (q->config.compacts)
		compact_enable(p);
	return t->partitions[index] = p;
}

static void on_group(struct partition *p, struct slice group, uint64_t committed)
{
	hooks_of(topic_of(p))->on_group(p, group, committed);
}

void topic_recover(struct topic *t, struct waiter *waiter)
{
	for (unsigned i = 0; i < t->queue->config.shards; i++)
		partition_recover(topic_partition(t, i), on_group, waiter);
	for (unsigned i = 0; i < t->queue->config.shards; i++)
		publish_ids_recover(&t->ids->ids, i, waiter);
}

void topic_drop_unused(struct topic *t)
{
	for (unsigned i = 0; i < t->queue->config.shards; i++)
		if (t->partitions[i] && partition_end(t->partitions[i]) == 0)
			close_partition(t, i);
}

uint64_t topic_end(const struct topic *t, unsigned index)
{
	return t->partitions[index] ? partition_end(t->partitions[index]) : 0;
}

struct topic_sum topic_sum(const struct topic *t)
{
	struct topic_sum sum = { 0 };

	for (unsigned i = 0; i < t->queue->config.shards; i++) {
		const struct partition *p = t->partitions[i];

		if (!p)
			continue;
		sum.start += partition_start(p);
		sum.end += partition_end(p);
		sum.bytes += partition_bytes(p);
	}
	return sum;
}
