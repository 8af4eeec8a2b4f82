/* ruleset.h: the rules that decide: an engine, with the index of each exchange and the
 * strategies of each queue.
 *
 * The active rules are one ruleset, candidate rules others, over the same exchanges,
 * bindings and queues. Each has a slot there: exchange->indexes[slot] and
 * queue->strategies[slot]. What is declared, bound, unbound or deleted is so in every
 * ruleset. The active rules may refuse it. What candidate rules refuse they go without,
 * and the next decision by them reports it. */
#ifndef TIDE_BROKER_RULESET_H
#define TIDE_BROKER_RULESET_H

#include "rules/engine/engine.h"

struct broker;
struct exchange;
struct queue;

enum ruleset_slot {
	RULESET_ACTIVE,
	RULESET_SHADOW,
	RULESET_REPLAY,
	RULESET_SLOTS,
};

struct ruleset {
	struct engine *engine;
	enum ruleset_slot slot;
	struct error failure; /* the first that is not reported yet; code 0: none */
};

/* Candidate rules are in broker->candidates: what is declared from now on comes into them
 * by itself, what there is by ruleset_step. */
/* Attach up to `max` exchanges and queues. True when all are. */
bool ruleset_step(const struct ruleset *r, struct broker *b, unsigned max);
/* Detach all of them. Before the engine is closed. */
void ruleset_leave(const struct ruleset *r, struct broker *b);

/* Keep a failure for the next decision. `what`: "exchange", "queue" */
static inline void ruleset_note_failure(struct ruleset *r, const char *what,
					const char *name, const struct error *cause)
{
	if (r->failure.code == TIDE_OK)
		error_set(&r->failure, TIDE_ERULE, "%s '%s': %s", what, name,
			  cause->text);
}

#endif
