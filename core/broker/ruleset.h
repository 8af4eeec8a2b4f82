/* ruleset.h: the rules that decide: an engine, with the index of each exchange and the
 * strategies of each queue.
 *
 * The active rules are one ruleset, candidate rules others, over the same exchanges,
 * bindings and queues. Each has a slot there: exchange->indexes[slot] and
 * queue->strategies[slot]. Candidate rules are in broker->candidates. What is declared,
 * bound, unbound or deleted is so in every ruleset. The active rules may refuse it. What
 * candidate rules refuse they go without, and the next decision by them reports it. */
#pragma once

#include "rules/engine/engine.h"

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

/* Keep a failure for the next decision. `what`: "exchange", "queue" */
static inline void ruleset_note_failure(struct ruleset *r, const char *what,
					const char *name, const struct error *cause)
{
	if (r->failure.code == TIDE_OK)
		error_set(&r->failure, TIDE_ERULE, "%s '%s': %s", what, name,
			  cause->text);
}
