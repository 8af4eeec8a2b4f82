#include "consumer.h"

#include "queue.h"

static bool can_take(const struct consumer *c)
{
	return c->is_get ||
	       ((c->is_auto_ack || c->unacked < c->prefetch) && c->ops->can_take(c));
}

void consumer_add(struct queue *q, struct consumer *c)
{
	c->queue = q;
	c->is_waiting = false;
	TAILQ_INSERT_TAIL(&q->able, c, queue_link);
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
	TAILQ_REMOVE(c->is_waiting ? &q->waiting : &q->able, c, queue_link);
	if (c->is_extended)
		TAILQ_REMOVE(&q->extended, c, extended_link);
	heap_remove(&q->vhost->broker->waits, &c->wait);
	queue_use(q);
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
	if (is_able == !c->is_waiting)
		return;
	TAILQ_REMOVE(c->is_waiting ? &q->waiting : &q->able, c, queue_link);
	c->is_waiting = !is_able;
	TAILQ_INSERT_TAIL(is_able ? &q->able : &q->waiting, c, queue_link);
	if (is_able)
		queue_activate(q);
}

void consumer_settled(struct consumer *c)
{
	c->unacked--;
	if (c->is_waiting)
		consumer_update(c);
}
