/* spec.h: `tidemq test`: busted runs the specs beside the rules, in this process, with
 * the real rule engine as the Lua module "tidemq": sandbox, options, views, reload. The
 * project's own specs load the module as a library (tests/lua/luatide.mk).
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
 *   engine:deliver({ headers = { card = "4711" } }, { queue = "jobs", user = "bob" })
 *       --> { verdict = "give", "refuse" or "delay", reason =, delay =, script =, headers
 * = } engine:settled({ key = "k" }, { queue = "jobs", event = "ack", took_ms = 5 })
 *       --> the copies that scripts publish
 *   engine:authenticate { user = "bob", password = "x", vhost = "/" }
 *       --> "allow", the user it makes or nil, its file; "deny", reason, file; or "none"
 *   engine:authorize({ name = "bob" }, "write", { kind = "queue", name = "jobs" })
 *       --> the same
 *   tidemq.open { secrets = { jwt = "text" } }  --> what tide.secret gives
 *   engine:set_now(1790000000000); engine:seed(1) --> tide.now and tide.random
 *   engine:set_queue("jobs", { ready = 5, oldest_ms = 100 }) --> what tide.queue tells
 *   engine:run("heartbeat", 60000)              --> { { key = "heartbeat", … } }
 *   engine:next_run("heartbeat", 60000)         --> 90000
 *
 * What the engine refuses is nil, a message and an error code. */
#pragma once

#include <lua.h>

/* Run every *_spec.lua below `dir`, which the module's open() loads by default. A spec
 * has no socket module, and os.exit raises. Otherwise it is a program of its author, who
 * is trusted.
 *
 * @return  exit status: 0 all passed, 1 some failed or could not be run */
int spec_run(const char *dir, const char *lua_dir);

/* Push the module: a function for `package.preload`. */
int spec_module_open(lua_State *L);
