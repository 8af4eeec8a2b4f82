/* spec_module.h: the rule engine as a Lua module, for specs of rules.
 *
 * Specs exercise scripts in the real engine: sandbox, options, views, reload. `tidemq
 * test` has the module as "tidemq". The project's own specs load it as a library
 * (tests/lua/luatide.mk).
 *
 *   local tidemq = require "tidemq"
 *   local engine = assert(tidemq.open { rules = "rules", lua = "lua" })
 *   local index = assert(engine:index("topic"))
 *   index:bind("orders.#", 1)
 *   index:route { key = "orders.new" }          --> { 1 }
 *   local s = assert(engine:strategy("retry", "exponential", { base = "500ms" }))
 *   s:decide({}, { failures = 1 })              --> 500
 *   engine:simulate("exponential", { max = 3 }) --> as RULES simulate
 *   engine:filter { exchange = "orders", key = "k", headers = { a = "b" } }
 *       --> the message as the filters leave it, with `copies`; or nil, reason, code
 *   engine:set_now(1790000000000); engine:seed(1) --> tide.now and tide.random
 *   engine:run("heartbeat", 60000)              --> { { key = "heartbeat", … } }
 *   engine:next_run("heartbeat", 60000)         --> 90000
 *
 * What the engine refuses is nil, a message and an error code. */
#ifndef TIDE_RULES_SPEC_SPEC_MODULE_H
#define TIDE_RULES_SPEC_SPEC_MODULE_H

#include <lua.h>

/* Push the module: a function for `package.preload`. */
int spec_module_open(lua_State *L);

#endif
