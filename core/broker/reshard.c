#include "reshard.h"

#include "base/mem.h"
#include "queue.h"

/* Redis is being told. The queue may be deleted meanwhile. */
struct reshard_job {
	struct broker *broker;
	uint64_t serial; /* of the queue */
	unsigned shards;
	struct waiter *waiter;
};

static void on_answer(void *ctx, int status, const char *text)
{
	struct reshard_job *job = ctx;
	struct queue *q = queue_by_serial(job->broker, job->serial);

	if (q)
		q->is_resharding = false;
	if (q && status == TIDE_OK)
		queue_set_shards(q, job->shards);
	waiter_done(job->waiter, status, text);
	mem_free(job);
}

static void tell_redis(struct queue *q, struct reshard_job *job)
{
	struct queue_config next = { .shards = q->config.shards,
				     .reshard = q->config.reshard };
	struct buf text = { 0 };

	args_copy(&next.canonical, &q->config.canonical);
	queue_config_reshard(&next, job->shards);
	args_format(&next.canonical, &text);
	store_definition_set(job->broker->store, STORE_QUEUES, vhost_slice(q->vhost),
			     queue_slice(q), buf_slice(&text), on_answer, job);
	buf_deinit(&text);
	args_deinit(&next.canonical);
}

int reshard(struct queue *q, unsigned shards, struct waiter *waiter, struct error *err)
{
	struct reshard_job *job;

	/* What is at work in one shard must hold back its group in another. */
	if (q->config.order_by != ORDER_NONE)
		return error_set(err, TIDE_EMISMATCH,
				 "queue '%s' has order-by=%s: it keeps its %u shards",
				 q->name, args_get(&q->config.canonical, "order-by"),
				 q->config.shards);
	if (!queue_is_durable(q)) {
		queue_set_shards(q, shards);
		return TIDE_OK;
	}
	if (q->is_resharding || !q->definition.is_stored)
		return error_set(err, TIDE_EBUSY,
				 "the last DECLARE of queue '%s' is not yet stored; try "
				 "again",
				 q->name);
	job = mem_zalloc(sizeof(*job));
	job->broker = q->vhost->broker;
	job->serial = q->serial;
	job->shards = shards;
	job->waiter = waiter;
	waiter_add(waiter);
	q->is_resharding = true;
	tell_redis(q, job);
	return TIDE_OK;
}
