#include "topic.h"

#include "base/container.h"
#include "base/mem.h"
#include "base/waiter.h"
#include "broker.h"
#include "log/compact.h"
#include "queue.h"
#include "walk.h"

static struct topic_ids *topic_ids_create(struct topic *t);
static void topic_ids_close(struct topic_ids *ids);

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
	struct store_shard *keys = NULL;
	struct partition *p;

	if (queue_is_durable(q))
		keys = store_shard_create(vhost_slice(q->vhost), queue_slice(q), index);
	p = partition_create(&q->vhost->broker->partitions, t, index, keys);
	if (keys && !q->definition.is_stored)
		partition_hold(p, true);
	if (q->config.compacts)
		compact_enable(p);
	return t->partitions[index] = p;
}

void topic_widen(struct topic *t, unsigned had)
{
	unsigned width = t->queue->config.shards;

	t->partitions = mem_realloc(t->partitions, width * sizeof(struct partition *));
	memset(t->partitions + had, 0, (width - had) * sizeof(struct partition *));
	hooks_of(t)->on_widen(t, had);
}

void topic_be_defined(struct topic *t)
{
	for (unsigned i = 0; i < t->queue->config.shards; i++)
		if (t->partitions[i])
			partition_hold(t->partitions[i], false);
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

/* The publish ids that a topic has seen: a second publish with the same id is not
 * appended.
 *
 * A topic decides for all its partitions, as a queue does for its shards. The append that
 * writes a message writes its id too: a crash leaves both or none. Until then the id is
 * pending: a repeated publish succeeds or fails with the first. A refused append makes
 * the topic forget the id. */

#define APPENDS_KEPT 4096

/* A message with a publish id that is on its way. */
struct topic_ids_append {
	struct waiter appended; /* told by the partition */
	struct topic_ids *ids;  /* NULL: the topic is gone */
	struct pool *pool;
	struct dedupe_record *record;
	struct waiter *publisher;       /* may be NULL */
	struct publish_ids_wait *waits; /* of repetitions */
	TAILQ_ENTRY(topic_ids_append) link;
};

void topic_ids_init_pool(struct pool *p)
{
	pool_init(p, sizeof(struct topic_ids_append), APPENDS_KEPT);
}

struct store_shard *topic_keys(const struct topic *t, unsigned index)
{
	const struct partition *p = t->partitions[index];

	return p ? partition_keys(p) : NULL;
}

static struct store_shard *keys_of(const struct publish_ids *ids, unsigned part)
{
	return topic_keys(container_of(ids, struct topic_ids, ids)->topic, part);
}

static void free_ids(struct publish_ids *ids)
{
	mem_free(container_of(ids, struct topic_ids, ids));
}

static const struct publish_ids_ops ops = { .keys = keys_of, .free = free_ids };

static struct topic_ids *topic_ids_create(struct topic *t)
{
	struct topic_ids *ids = mem_zalloc(sizeof(*ids));

	publish_ids_init(&ids->ids, dedupe_env(t->queue->vhost->broker->dedupe), &ops,
			 DEDUPE_TABLE_OFFSETS);
	ids->topic = t;
	TAILQ_INIT(&ids->appends);
	return ids;
}

static void topic_ids_close(struct topic_ids *ids)
{
	struct topic_ids_append *a;

	while ((a = TAILQ_FIRST(&ids->appends)) != NULL) {
		TAILQ_REMOVE(&ids->appends, a, link);
		a->ids = NULL;
	}
	publish_ids_drop(&ids->ids);
}

static void settle(struct topic_ids_append *a, int status)
{
	if (!a->ids)
		return;
	TAILQ_REMOVE(&a->ids->appends, a, link);
	a->record->pending = NULL;
	if (status < 0)
		publish_ids_forget(&a->ids->ids, a->record);
}

static void on_appended(struct waiter *w)
{
	struct topic_ids_append *a = container_of(w, struct topic_ids_append, appended);
	struct waiter *publisher = a->publisher;
	struct publish_ids_wait *waits = a->waits;
	int status = w->status;
	const char *text = w->text;

	settle(a, status);
	pool_give(a->pool, a);
	if (publisher)
		waiter_done(publisher, status, text);
	publish_ids_tell(waits, status, text);
}

static struct topic_ids_append *begin(struct topic_ids *ids, struct dedupe_record *r,
				      struct waiter *publisher)
{
	struct pool *pool = &ids->topic->queue->vhost->broker->id_appends;
	struct topic_ids_append *a = pool_take(pool);

	*a = (struct topic_ids_append){
		.ids = ids, .pool = pool, .record = r, .publisher = publisher
	};
	waiter_init(&a->appended, on_appended);
	TAILQ_INSERT_TAIL(&ids->appends, a, link);
	r->pending = a;
	if (publisher)
		waiter_add(publisher);
	return a;
}

static void append(struct topic_ids *ids, const struct topic_ids_publish *p,
		   struct waiter *waiter, struct topic_ids_place *out)
{
	struct dedupe_record *r = publish_ids_add(&ids->ids, &p->key, p->msg->id,
						  p->partition, p->window_ms);
	struct topic_ids_append *a = begin(ids, r, waiter);
	struct store_seen seen = { .publish_id = p->key.publish_id,
				   .msg_id = p->msg->id,
				   .copy = p->key.copy,
				   .until_unix_ms = r->until_unix_ms };

	partition_append_seen(topic_partition(ids->topic, p->partition), p->msg, &seen,
			      &a->appended);
	dedupe_record_set_offset(r, seen.offset);
	*out = (struct topic_ids_place){ p->msg->id, seen.offset, p->partition };
	waiter_done(&a->appended, TIDE_OK, NULL);
}

bool topic_ids_publish(struct topic_ids *ids, const struct topic_ids_publish *p,
		       struct waiter *waiter, struct topic_ids_place *out)
{
	const struct dedupe_record *seen = publish_ids_find(&ids->ids, &p->key);
	struct topic_ids_append *first;

	if (!seen) {
		append(ids, p, waiter, out);
		return true;
	}
	*out = (struct topic_ids_place){ seen->msg_id, dedupe_record_offset(seen),
					 seen->shard };
	first = seen->pending;
	if (first)
		publish_ids_wait_for(&first->waits, waiter);
	return false;
}

/* Messages of a topic are dropped because somebody says so. */

struct topic_purge {
	struct partition *partition; /* it lives as long as the search */
	struct waiter *waiter;
	uint64_t *count;
};

/* The waiter has been counted up. */
static void drop(const struct topic_purge *purge, uint64_t offset)
{
	struct partition *p = purge->partition;
	uint64_t start = partition_start(p), end = partition_readable(p);

	if (offset > end)
		offset = end;
	if (offset > start)
		*purge->count += offset - start;
	partition_trim(p, offset, waiter_store_done, purge->waiter);
}

static void on_found(void *ctx, int status, const char *text, uint64_t offset)
{
	struct topic_purge *purge = ctx;

	if (status < 0)
		waiter_done(purge->waiter, status, text);
	else
		drop(purge, offset);
	mem_free(purge);
}

static void purge_partition(const struct topic_purge *what, const struct position *before,
			    int64_t now_ms)
{
	struct topic_purge *purge;

	waiter_add(what->waiter);
	switch (before->kind) {
	case POSITION_FIRST:
	case POSITION_COMMITTED:
		drop(what, 0);
		return;
	case POSITION_OFFSET:
		drop(what, before->offset);
		return;
	case POSITION_NONE:
	case POSITION_LAST:
		drop(what, partition_last(what->partition, before->offset));
		return;
	case POSITION_TIME:
	case POSITION_AGO:
		purge = mem_alloc(sizeof(*purge));
		*purge = *what;
		partition_find_time(what->partition, position_time(before, now_ms),
				    on_found, purge);
	}
}

void topic_purge(struct topic *t, const struct position *before, int64_t index,
		 struct waiter *waiter, uint64_t *count)
{
	int64_t now_ms = t->queue->vhost->broker->now_ms;

	for (unsigned i = 0; i < t->queue->config.shards; i++) {
		const struct topic_purge purge = { t->partitions[i], waiter, count };

		if (purge.partition && (index < 0 || i == index))
			purge_partition(&purge, before, now_ms);
	}
}
