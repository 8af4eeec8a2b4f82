#include "getter.h"

#include "broker.h"
#include "queue.h"

static void set_timer(struct getter *g)
{
	int64_t at_ms = g->until_ms;

	if (g->read_until_ms && (g->is_over || g->read_until_ms < at_ms))
		at_ms = g->read_until_ms;
	heap_set(&g->broker->waits, &g->wait, at_ms);
}

void getter_add(struct getter *g, int64_t until_ms)
{
	g->until_ms = until_ms;
	set_timer(g);
	for (unsigned i = 0; i < g->consumer_count; i++) {
		struct consumer *c = &g->consumers[i];

		consumer_add(c->queue, c);
	}
}

static void leave_readers(struct consumer *c)
{
	if (c->is_reader)
		TAILQ_REMOVE(&c->queue->readers, c, reader_link);
	c->is_reader = false;
}

void getter_remove(struct getter *g)
{
	heap_remove(&g->broker->waits, &g->wait);
	for (unsigned i = 0; i < g->consumer_count; i++) {
		if (!g->consumers[i].queue)
			continue;
		leave_readers(&g->consumers[i]);
		consumer_remove(&g->consumers[i]);
	}
}

void getter_await(struct getter *g)
{
	if (!g->read_until_ms)
		g->read_until_ms = g->broker->mono_ms + GETTER_READ_MS;
	set_timer(g);
}

void getter_await_no_more(struct getter *g)
{
	g->is_hasty = true;
	g->read_until_ms = g->broker->mono_ms;
	set_timer(g);
}

/* The queue of this consumer is being read. */
static void await_read(struct consumer *c)
{
	if (!c->is_reader)
		TAILQ_INSERT_TAIL(&c->queue->readers, c, reader_link);
	c->is_reader = true;
	getter_await(c->getter);
}

/* The first of its consumers before `end` whose queue is being read, or NULL. */
static struct consumer *first_read(const struct getter *g, const struct consumer *end)
{
	struct consumer *c;

	if (g->is_hasty)
		return NULL;
	for (c = g->consumers; c < end; c++)
		if (queue_is_refilling(c->queue))
			return c;
	return NULL;
}

bool getter_can_take(struct consumer *c)
{
	struct consumer *read = first_read(c->getter, c);

	if (read)
		await_read(read);
	return !read;
}

bool getter_awaits_read(struct getter *g)
{
	struct consumer *read = NULL;

	if (g->count < g->max && g->bytes < GETTER_BYTES)
		read = first_read(g, g->consumers + g->consumer_count);
	if (read)
		await_read(read);
	return read != NULL;
}

bool getter_has_active_before(const struct consumer *c)
{
	const struct consumer *before;

	for (before = c->getter->consumers; before < c; before++)
		if (before->queue->is_active)
			return true;
	return false;
}

void getter_hurry(struct getter *g)
{
	if (g->is_over)
		return;
	g->until_ms = g->broker->mono_ms;
	set_timer(g);
}

static void update(struct getter *g)
{
	for (unsigned i = 0; i < g->consumer_count; i++)
		consumer_update(&g->consumers[i]);
}

bool getter_wake(struct getter *g)
{
	if (g->read_until_ms && g->broker->mono_ms >= g->read_until_ms)
		g->is_hasty = true;
	g->is_over = g->is_over || g->broker->mono_ms >= g->until_ms;
	if (g->is_over || g->count > 0 || g->broker->is_draining)
		return true;
	g->read_until_ms = 0;
	set_timer(g);
	update(g);
	return false;
}

struct getter *getter_read_ended(struct queue *q)
{
	struct consumer *c;

	while ((c = TAILQ_FIRST(&q->readers)) != NULL) {
		struct getter *g = c->getter;

		leave_readers(c);
		if (g->is_over || g->count > 0)
			return g;
		g->read_until_ms = 0;
		set_timer(g);
		update(g);
	}
	return NULL;
}
