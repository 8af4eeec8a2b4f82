#include "credit.h"

#include "base/container.h"
#include "queue.h"

/* A busy queue, or a read of Redis, holds the others up no longer. */
#define CHANCE_MS 1000

void credit_init(struct credit *cr, struct broker *b, uint32_t limit)
{
	*cr = (struct credit){ .broker = b, .limit = limit };
}

static void unlist(struct credit *cr)
{
	if (cr->is_listed)
		TAILQ_REMOVE(&cr->broker->credits, cr, link);
	cr->is_listed = false;
}

void credit_deinit(struct credit *cr)
{
	unlist(cr);
	heap_deinit(&cr->wanting);
}

static bool is_wanted(const struct credit *cr)
{
	return !credit_is_full(cr) && heap_min(&cr->wanting);
}

static void list(struct credit *cr)
{
	if (cr->is_listed || !is_wanted(cr))
		return;
	cr->is_listed = true;
	TAILQ_INSERT_TAIL(&cr->broker->credits, cr, link);
}

void credit_want(struct consumer *c)
{
	struct credit *cr = c->credit;

	if (!heap_has(&c->want))
		heap_set(&cr->wanting, &c->want,
			 consumer_place(-(int32_t)c->rank, ++cr->turns));
	list(cr);
}

void credit_forget(struct consumer *c)
{
	struct credit *cr = c->credit;

	heap_remove(&cr->wanting, &c->want);
	if (cr->tried == c)
		cr->tried = NULL;
}

void credit_return(struct credit *cr, uint32_t count)
{
	cr->used -= count;
	list(cr);
}

/* The last one may still find something: its queue deals on, or is read from Redis. */
static bool is_being_tried(const struct credit *cr)
{
	const struct consumer *c = cr->tried;

	return c && consumer_is_able(c) && cr->broker->mono_ms < cr->tried_until_ms &&
	       (c->queue->is_active || queue_is_refilling(c->queue));
}

static void give_chance(struct credit *cr)
{
	struct heap_node *n = heap_min(&cr->wanting);
	struct consumer *c = container_of(n, struct consumer, want);

	heap_remove(&cr->wanting, n);
	cr->tried = c;
	cr->tried_until_ms = cr->broker->mono_ms + CHANCE_MS;
	consumer_admit(c);
}

void credit_turn(struct broker *b)
{
	struct credit *cr, *next;

	for (cr = TAILQ_FIRST(&b->credits); cr; cr = next) {
		next = TAILQ_NEXT(cr, link);
		if (!is_wanted(cr))
			unlist(cr);
		else if (!is_being_tried(cr))
			give_chance(cr);
	}
}
