/* moment.h: one instant and one throw of the dice for two engines, so that rules
 * beside those in force decide under the same conditions. */
#ifndef TIDE_RULES_ENGINE_MOMENT_H
#define TIDE_RULES_ENGINE_MOMENT_H

#include "rules/api/dry_run.h"
#include "engine.h"

struct moment {
	int64_t now_ms;
	uint64_t random_state;
	bool was_fixed; /* the clock of the engine that it is of */
};

/* What tide.now and tide.random give from here on; tide.now gives that until the
 * end. */
void engine_moment_begin(struct engine *e, struct moment *m);
void engine_moment_end(struct engine *e, const struct moment *m);

/* The moment of another engine. What this one's scripts draw leaves no trace. */
void engine_moment_borrow(struct engine *e, const struct moment *m);
void engine_moment_return(struct engine *e);

/* Besides, until the return, decide without doing, and on the `tide.shared` of that
 * other one: neither is changed. */
void engine_moment_borrow_dry(struct engine *e, const struct moment *m,
			      struct engine *other, struct dry_run *run);
void engine_moment_return_dry(struct engine *e);

#endif
