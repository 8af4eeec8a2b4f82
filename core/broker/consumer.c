#include "consumer.h"

#include "getter.h"
#include "queue.h"

static bool can_take(struct consumer *c)
{
	if (c->getter)
		return getter_can_take(c);
	return (c->is_auto_ack || c->unacked < c->prefetch) && c->ops->can_take(c);
}

void consumer_add(struct queue *q, struct consumer *c)
{
	c->queue = q;
	c->is_waiting = false;
	TAILQ_INSERT_TAIL(&q->able, c, queue_link);
	if (!c->getter) {
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
	c->queue = NULL;
	if (c->getter)
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
