/* loads.h: `loads(i)` as sharding scripts see it: how much shard i has to do.
 *
 * One function for all calls of a state, so that handing it to a script that
 * does not use it makes no object. Good for the call that it was given to. */
#ifndef TIDE_RULES_ENGINE_LOADS_H
#define TIDE_RULES_ENGINE_LOADS_H

#include <lua.h>

#include "strategy.h"

struct loads {
	unsigned shards;
	strategy_load_fn *load; /* NULL: every shard has none */
	const void *ctx;
};

/* Once in a state. May raise. */
void loads_open(lua_State *L);
/* Push the function, which from here on speaks of `l`; that outlives the call
 * under way. Needs two slots of the stack. */
void loads_push(lua_State *L, const struct loads *l);

#endif
