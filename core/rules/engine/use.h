/* use.h: a script with the options of one queue or exchange, and the calls of it.
 *
 * The engine numbers the uses. A number means the same use in each generation. */
#ifndef TIDE_RULES_ENGINE_USE_H
#define TIDE_RULES_ENGINE_USE_H

#include "generation.h"

struct engine;

/* In the error of a call that the open circuit did not make. */
#define USE_NOT_CALLED "not called again: it fails too often"

struct use {
	const struct rule *rule; /* NULL: this number is not in use */
	int options;             /* references */
	int state;               /* what `new` returned: for routing the index */
	bool is_pure;
	bool must_carry; /* see carry.h */
};

/* Make use `number` of a script. TIDE_EMISMATCH for wrong options. */
TIDE_MUST_USE int use_open(struct generation *g, size_t number, struct rule *rule,
			   const struct args *options, struct error *err);
/* Harmless for a number that is not in use. */
void use_release(struct generation *g, size_t number);

/* Call the script of `use` for a decision: `body` runs inside the door. While the
 * script's circuit is open, or the rules' memory is used up, the call is not made. */
TIDE_MUST_USE int use_decide(struct engine *e, const struct use *use, lua_CFunction body,
			     void *ctx, struct error *err);

#endif
