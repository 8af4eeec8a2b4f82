/* use.h: a script with the options of one queue or exchange, and the calls of it.
 *
 * The engine numbers the uses. A number means the same use in each generation. */
#ifndef TIDE_RULES_ENGINE_USE_H
#define TIDE_RULES_ENGINE_USE_H

#include "generation.h"
#include "rules/api/decision_context.h"

struct engine;

/* In the error of a call that the open circuit did not make. */
#define USE_NOT_CALLED "not called again: it fails too often"

struct use {
	struct rule *rule; /* NULL: this number is not in use */
	int options;       /* references */
	int state;         /* what `new` returned: for routing the index */
	bool is_pure;
	bool must_carry; /* see carry.h */
};

/* Make use `number` of a script. TIDE_EMISMATCH for wrong options. */
TIDE_MUST_USE int use_open(struct generation *g, size_t number, struct rule *rule,
			   const struct args *options, struct error *err);
/* Harmless for a number that is not in use. */
void use_release(struct generation *g, size_t number);

/* A script is asked for a decision. */
struct use_call {
	const struct use *use;
	struct decision_context *context; /* NULL: live */
	lua_CFunction body;               /* runs inside the door */
	void *ctx;                        /* of the body */
};

/* Make the call. While the script's circuit is open, or the rules' memory is used up, it
 * fails at once. */
TIDE_MUST_USE int use_decide(struct engine *e, const struct use_call *c,
			     struct error *err);

#endif
