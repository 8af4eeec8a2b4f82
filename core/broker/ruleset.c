#include "ruleset.h"

#include "broker.h"
#include "exchange.h"
#include "queue.h"

void ruleset_note_failure(struct ruleset *r, const char *what, const char *name,
			  const struct error *cause)
{
	if (r->failure.code == TIDE_OK)
		error_set(&r->failure, TIDE_ERULE, "%s '%s': %s", what, name,
			  cause->text);
}

void ruleset_enter(struct ruleset *r, struct broker *b)
{
	b->candidates[r->slot] = r;
}

/* What the active rules cannot use needs no candidate either. */
static bool needs_exchange(const struct ruleset *r, const struct exchange *x)
{
	return x->indexes[RULESET_ACTIVE] && !x->indexes[r->slot];
}

static bool needs_queue(const struct ruleset *r, const struct queue *q)
{
	return queue_is_attached(q, RULESET_ACTIVE) && !queue_is_attached(q, r->slot);
}

/* Nothing fails while the engine has no scripts yet. */
static bool attach_some(const struct ruleset *r, const struct vhost *v, unsigned *left)
{
	struct exchange *x, *next_exchange;
	struct queue *q, *next_queue;

	HASH_ITER (hh, v->exchanges, x, next_exchange) {
		if (!needs_exchange(r, x))
			continue;
		if ((*left)-- == 0)
			return false;
		ruleset_follow_exchange(x);
	}
	HASH_ITER (hh, v->queues, q, next_queue) {
		if (!needs_queue(r, q))
			continue;
		if ((*left)-- == 0)
			return false;
		ruleset_follow_queue(q);
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

void ruleset_follow_exchange(struct exchange *x)
{
	struct broker *b = x->vhost->broker;
	struct error why;

	for (int slot = RULESET_ACTIVE + 1; slot < RULESET_SLOTS; slot++) {
		struct ruleset *r = b->candidates[slot];

		if (r && needs_exchange(r, x) && exchange_attach(x, r, &why) < 0)
			ruleset_note_failure(r, "exchange", x->name, &why);
	}
}

void ruleset_follow_queue(struct queue *q)
{
	struct broker *b = q->vhost->broker;
	struct error why;

	for (int slot = RULESET_ACTIVE + 1; slot < RULESET_SLOTS; slot++) {
		struct ruleset *r = b->candidates[slot];

		if (r && needs_queue(r, q) && queue_attach(q, r, &why) < 0)
			ruleset_note_failure(r, "queue", q->name, &why);
	}
}
