#include "succession.h"

#include "base/container.h"

void succession_enter(struct queue *q, struct consumer *c)
{
	heap_set(&q->line, &c->line, consumer_place(c->priority, ++q->arrivals));
}

void succession_leave(struct queue *q, struct consumer *c)
{
	heap_remove(&q->line, &c->line);
	if (q->active == c)
		q->active = NULL;
	queue_activate(q);
}

static void set_active(struct consumer *c, bool is_active)
{
	if (c->is_active == is_active)
		return;
	c->is_active = is_active;
	consumer_update(c);
	c->ops->on_active(c);
}

void succession_settle(struct queue *q)
{
	struct heap_node *n = heap_min(&q->line);
	struct consumer *first = n ? container_of(n, struct consumer, line) : NULL;

	if (q->active && q->active != first) {
		set_active(q->active, false);
		if (q->active->lease.count > 0)
			return;
	}
	q->active = first;
	if (first)
		set_active(first, true);
}
