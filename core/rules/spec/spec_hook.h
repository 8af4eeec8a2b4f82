/* spec_hook.h: what specs ask the scripts of deliver/ and settled/. */
#pragma once

#include <lua.h>

#include "base/error.h"
#include "base/msg.h"

struct decision_context;
struct engine;

/* The question for both. */
struct spec_hook {
	struct engine *engine;
	struct decision_context *context;
	const struct msg *msg;
};

/* deliver (msg, consumer) -> { verdict =, reason =, delay =, script =, headers = }.
 * Pushes it, unless a script fails. */
TIDE_MUST_USE int spec_hook_deliver(lua_State *L, const struct spec_hook *h,
				    struct error *err);
/* settled (msg, outcome) -> the copies */
TIDE_MUST_USE int spec_hook_settled(lua_State *L, const struct spec_hook *h,
				    struct error *err);
