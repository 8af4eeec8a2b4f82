#include "group_death.h"

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "dead_letter.h"
#include "group_settle.h"
#include "move.h"
#include "queue.h"

#define AGAIN_MS 5000
/* All of them are tried again, which may be many: the log has one line in a while. */
#define REFUSED_LOG_MS 60000

struct group_death {
	TAILQ_ENTRY(group_death) link;
	struct waiter waiter;
	struct group_claim *gc; /* NULL: it is gone */
	struct broker *broker;
	uint64_t offset;
	struct msg *copy;       /* the dead letter; NULL: what scripts publish */
	struct heap_node again; /* in group_env.deaths */
};

int64_t group_death_never(struct broker *b)
{
	return GROUP_DEATH_NEVER_MS + (int64_t)++b->groups.death_count;
}

static void destroy(struct group_death *d)
{
	if (d->gc)
		TAILQ_REMOVE(&d->gc->dying, d, link);
	heap_remove(&d->broker->groups.deaths, &d->again);
	msg_unref(d->copy);
	mem_free(d);
}

static void on_refused(struct group_death *d, const char *text)
{
	const struct queue *q = d->gc->group->topic->queue;

	if (log_is_due(&d->broker->groups.death_logged_ms, d->broker->mono_ms,
		       REFUSED_LOG_MS))
		log_warn("topic '%s' of vhost '%s': dead-lettering: %s; trying again "
			 "every 5 s",
			 q->name, q->vhost->name, text);
	heap_set(&d->broker->groups.deaths, &d->again, d->broker->mono_ms + AGAIN_MS);
}

static void on_published(struct waiter *w)
{
	struct group_death *d = container_of(w, struct group_death, waiter);
	struct group_claim *gc = d->gc;
	uint64_t offset = d->offset;
	bool is_over;

	if (gc && d->copy && w->status < 0) {
		on_refused(d, w->text ? w->text : error_text(w->status));
		return;
	}
	/* At the end nothing is settled that is not durable. */
	is_over = !d->copy && w->status == TIDE_ESHUTDOWN;
	if (gc && d->copy)
		dead_letter_count(gc->group->topic->queue);
	destroy(d);
	if (gc && !is_over)
		group_settle_died(gc, offset);
}

static void publish(struct group_death *d)
{
	struct error err;
	int rc;

	waiter_init(&d->waiter, on_published);
	rc = move_publish(d->gc->group->topic->queue->vhost, d->copy, &d->waiter, &err);
	waiter_done(&d->waiter, rc, rc < 0 ? err.text : NULL);
}

static struct group_death *add(struct group_claim *gc, uint64_t offset)
{
	struct group_death *d = mem_zalloc(sizeof(*d));

	d->gc = gc;
	d->broker = group_broker(gc->group);
	d->offset = offset;
	TAILQ_INSERT_TAIL(&gc->dying, d, link);
	return d;
}

void group_death_start_take(struct group_claim *gc, uint64_t offset, struct msg *copy)
{
	struct group_death *d = add(gc, offset);

	d->copy = copy;
	publish(d);
}

void group_death_wait_take(struct group_claim *gc, uint64_t offset,
			   struct draft_copies *copies)
{
	struct group_death *d = add(gc, offset);

	waiter_init(&d->waiter, on_published);
	move_copies_publish_take(gc->group->topic->queue, copies, &d->waiter);
	waiter_done(&d->waiter, TIDE_OK, NULL);
}

void group_death_forget(struct group_claim *gc)
{
	struct group_death *d;

	while ((d = TAILQ_FIRST(&gc->dying)) != NULL) {
		if (heap_has(&d->again)) {
			destroy(d);
			continue;
		}
		TAILQ_REMOVE(&gc->dying, d, link);
		d->gc = NULL;
	}
}

void group_death_turn(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->groups.deaths)) != NULL && n->key <= b->mono_ms) {
		heap_remove(&b->groups.deaths, n);
		publish(container_of(n, struct group_death, again));
		if (pace_is_spent(&b->pace, true))
			return;
	}
}

int64_t group_death_due_ms(const struct broker *b)
{
	const struct heap_node *n = heap_min(&b->groups.deaths);

	return n ? b->now_ms + (n->key - b->mono_ms) : 0;
}
