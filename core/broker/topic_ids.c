#include "topic_ids.h"

#include "base/container.h"
#include "base/mem.h"
#include "broker.h"
#include "queue.h"
#include "topic.h"

#define APPENDS_KEPT 4096

struct topic_ids_wait {
	struct waiter *waiter;
	struct topic_ids_wait *next;
};

/* A message with a publish id that is on its way. */
struct topic_ids_append {
	struct waiter appended; /* told by the partition */
	struct topic_ids *ids;  /* NULL: the topic is gone */
	struct pool *pool;
	struct dedupe_record *record;
	struct waiter *publisher;     /* may be NULL */
	struct topic_ids_wait *waits; /* of repetitions */
	TAILQ_ENTRY(topic_ids_append) link;
};

void topic_ids_init_pool(struct pool *p)
{
	pool_init(p, sizeof(struct topic_ids_append), APPENDS_KEPT);
}

static struct store_shard *keys_of(const struct publish_ids *ids, unsigned part)
{
	const struct topic *t = container_of(ids, struct topic_ids, ids)->topic;
	const struct partition *p = t->partitions[part];

	return p ? store_log_shard(partition_keys(p)) : NULL;
}

static void free_ids(struct publish_ids *ids)
{
	mem_free(container_of(ids, struct topic_ids, ids));
}

static const struct publish_ids_ops ops = { keys_of, free_ids };

struct topic_ids *topic_ids_create(struct topic *t)
{
	struct topic_ids *ids = mem_zalloc(sizeof(*ids));

	publish_ids_init(&ids->ids, dedupe_env(t->queue->vhost->broker->dedupe), &ops);
	dedupe_table_init(&ids->ids.table, DEDUPE_TABLE_OFFSETS);
	ids->topic = t;
	TAILQ_INIT(&ids->appends);
	return ids;
}

void topic_ids_close(struct topic_ids *ids)
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
	struct topic_ids_wait *wait = a->waits, *next;
	int status = w->status;
	const char *text = w->text;

	settle(a, status);
	pool_give(a->pool, a);
	if (publisher)
		waiter_done(publisher, status, text);
	for (; wait; wait = next) {
		next = wait->next;
		waiter_done(wait->waiter, status, text);
		mem_free(wait);
	}
}

static void wait_for(struct topic_ids_append *a, struct waiter *waiter)
{
	struct topic_ids_wait *wait;

	if (!waiter)
		return;
	waiter_add(waiter);
	wait = mem_alloc(sizeof(*wait));
	*wait = (struct topic_ids_wait){ waiter, a->waits };
	a->waits = wait;
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

	if (!seen) {
		append(ids, p, waiter, out);
		return true;
	}
	*out = (struct topic_ids_place){ seen->msg_id, dedupe_record_offset(seen),
					 seen->shard };
	if (seen->pending)
		wait_for(seen->pending, waiter);
	return false;
}
