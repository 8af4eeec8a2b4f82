#include "wake.h"

#include "base/container.h"
#include "host/log.h"
#include "pause.h"
#include "queue.h"

void wake_by(struct queue *q, int64_t mono_ms)
{
	if (!heap_has(&q->wake) || q->wake.key > mono_ms)
		heap_set(&q->vhost->broker->wakes, &q->wake, mono_ms);
}

void wake_all(struct broker *b)
{
	heap_set_all(&b->wakes, b->mono_ms);
}

static void expire(struct queue *q)
{
	log_info("queue '%s' of vhost '%s' is deleted: nobody has used it for its "
		 "expires=%s",
		 q->name, q->vhost->name, args_get(&q->config.canonical, "expires"));
	queue_erase(q, NULL);
	queue_destroy(q);
}

void wake_turn(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->wakes)) != NULL && n->key <= b->heard_ms) {
		struct queue *q = container_of(n, struct queue, wake);

		heap_remove(&b->wakes, n);
		pause_tick(q);
		if (queue_is_expired(q))
			expire(q);
		else
			queue_activate(q);
		if (pace_is_spent(&b->pace, false))
			return;
	}
}

int64_t wake_due_ms(const struct broker *b)
{
	const struct heap_node *n = heap_min(&b->wakes);

	return n && b->is_started ? b->now_ms + (n->key - b->mono_ms) : 0;
}
