#include "ruleset.h"

#include "broker.h"
#include "exchange.h"
#include "queue.h"

/* Nothing fails while the engine has no scripts yet. */
static bool attach_some(const struct ruleset *r, const struct vhost *v, unsigned *left)
{
	struct exchange *x, *next_exchange;
	struct queue *q, *next_queue;

	HASH_ITER (hh, v->exchanges, x, next_exchange) {
		if (!exchange_needs(x, r->slot))
			continue;
		if ((*left)-- == 0)
			return false;
		exchange_follow(x);
	}
	HASH_ITER (hh, v->queues, q, next_queue) {
		if (!queue_needs(q, r->slot))
			continue;
		if ((*left)-- == 0)
			return false;
		queue_follow(q);
	}
	return true;
}

bool ruleset_step(const struct ruleset *r, struct broker *b, unsigned max)
{
	struct vhost *v, *next;

	HASH_ITER (hh, b->vhosts, v, next)
		if (!attach_some(r, v, &max))
			return false;
	return true;
}

void ruleset_leave(const struct ruleset *r, struct broker *b)
{
	struct vhost *v, *next_vhost;
	struct exchange *x, *next_exchange;
	struct queue *q, *next_queue;

	HASH_ITER (hh, b->vhosts, v, next_vhost) {
		HASH_ITER (hh, v->exchanges, x, next_exchange)
			exchange_detach(x, r->slot);
		HASH_ITER (hh, v->queues, q, next_queue)
			queue_detach(q, r->slot);
	}
	b->candidates[r->slot] = NULL;
}
