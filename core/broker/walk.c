#include "walk.h"

#include "queue.h"
#include "topic.h"

/* The first exchange of this vhost, or of one behind it. */
static struct exchange *first_exchange(const struct vhost *v)
{
	while (v && !v->exchanges)
		v = v->hh.next;
	return v ? v->exchanges : NULL;
}

static struct exchange *next_exchange(const struct exchange *x)
{
	return x->hh.next ? x->hh.next : first_exchange(x->vhost->hh.next);
}

void walk_rewind(struct walk *w)
{
	w->queue = w->broker->queues_by_serial;
	w->topic = TAILQ_FIRST(&w->broker->topics);
	w->exchange = first_exchange(w->broker->vhosts);
}

void walk_begin(struct walk *w, struct broker *b)
{
	*w = (struct walk){ .broker = b, .newest = b->last_serial };
	TAILQ_INSERT_TAIL(&b->walks, w, link);
	walk_rewind(w);
}

void walk_end(struct walk *w)
{
	TAILQ_REMOVE(&w->broker->walks, w, link);
}

/* The queues of a walk lie in the order of their serials. */
struct queue *walk_queue(struct walk *w)
{
	struct queue *q;

	do {
		q = w->queue;
		if (!q || q->serial > w->newest)
			return NULL;
		w->queue = q->serial_hh.next;
	} while (q->topic || q->definition.unusable);
	return q;
}

struct queue *walk_topic(struct walk *w)
{
	struct queue *q;

	do {
		q = w->topic ? w->topic->queue : NULL;
		if (!q || q->serial > w->newest)
			return NULL;
		w->topic = TAILQ_NEXT(w->topic, link);
	} while (q->definition.unusable);
	return q;
}

struct exchange *walk_exchange(struct walk *w)
{
	struct exchange *x;

	do {
		x = w->exchange;
		if (!x)
			return NULL;
		w->exchange = next_exchange(x);
	} while (x->serial > w->newest || x->definition.unusable);
	return x;
}

struct definition *walk_definition(struct walk *w)
{
	struct exchange *x = walk_exchange(w);
	struct queue *q = x ? NULL : walk_queue(w);

	if (x)
		return &x->definition;
	if (!q)
		q = walk_topic(w);
	return q ? &q->definition : NULL;
}

void walk_leave_queue(struct queue *q)
{
	struct walk *w;

	TAILQ_FOREACH (w, &q->vhost->broker->walks, link)
		if (w->queue == q)
			w->queue = q->serial_hh.next;
}

void walk_leave_topic(struct topic *t)
{
	struct walk *w;

	TAILQ_FOREACH (w, &t->queue->vhost->broker->walks, link)
		if (w->topic == t)
			w->topic = TAILQ_NEXT(t, link);
}

void walk_leave_exchange(struct exchange *x)
{
	struct walk *w;

	TAILQ_FOREACH (w, &x->vhost->broker->walks, link)
		if (w->exchange == x)
			w->exchange = next_exchange(x);
}
