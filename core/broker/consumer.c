#include "consumer.h"

#include "base/container.h"
#include "queue.h"

static bool can_take(const struct consumer *c)
{
	return c->is_get ||
	       ((c->is_auto_ack || c->unacked < c->prefetch) && c->ops->can_take(c));
}

/* To the end of the line of its priority. There are turns for 89 years at 100,000 a
 * second. */
static void take_turn(struct queue *q, struct consumer *c)
{
	heap_set(&q->able, &c->turn,
		 -(int64_t)c->priority * (INT64_C(1) << 48) + ++q->turns);
}

void consumer_add(struct queue *q, struct consumer *c)
{
	c->queue = q;
	TAILQ_INSERT_TAIL(&q->consumers, c, queue_link);
	take_turn(q, c);
	if (!c->is_get) {
		q->consumer_count++;
		q->had_consumer = true;
	}
	queue_activate(q);
}

void consumer_remove(struct consumer *c)
{
	struct queue *q = c->queue;

	if (!q)
		return;
	TAILQ_REMOVE(&q->consumers, c, queue_link);
	heap_remove(&q->able, &c->turn);
	if (c->is_extended)
		TAILQ_REMOVE(&q->extended, c, extended_link);
	heap_remove(&q->vhost->broker->waits, &c->wait);
	c->queue = NULL;
	if (c->is_get)
		return;
	q->consumer_count--;
	if (queue_is_abandoned(q))
		queue_activate(q); /* the turn finds that it is to go */
}

void consumer_update(struct consumer *c)
{
	struct queue *q = c->queue;
	bool is_able;

	if (!q)
		return;
	is_able = can_take(c);
	if (is_able == consumer_is_able(c))
		return;
	if (!is_able) {
		heap_remove(&q->able, &c->turn);
		return;
	}
	take_turn(q, c);
	queue_activate(q);
}

struct consumer *consumer_next(struct queue *q)
{
	struct heap_node *n;

	while ((n = heap_min(&q->able)) != NULL) {
		struct consumer *c = container_of(n, struct consumer, turn);

		if (can_take(c))
			return c;
		heap_remove(&q->able, n);
	}
	return NULL;
}

void consumer_pass_turn(struct consumer *c)
{
	take_turn(c->queue, c);
}

void consumer_settled(struct consumer *c)
{
	c->unacked--;
	if (!consumer_is_able(c))
		consumer_update(c);
}
