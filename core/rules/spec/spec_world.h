/* spec_world.h: what scripts see and leave beside their decisions, for specs: the clock,
 * tide.shared, counters, lines of the log. Each function works on the arguments of the
 * method of an engine that has its name, and pushes what that returns. */
#pragma once

#include <lua.h>

#include "rules/engine/engine_private.h"

/* From now on lines of scripts are kept for spec_world_log, the first 1000. */
void spec_world_open(struct engine *e);
void spec_world_close(struct engine *e);

/* set_now (ms): what tide.now gives from here on; nil for the real time */
void spec_world_set_now(lua_State *L, struct engine *e);
/* advance (ms or duration) -> the time after it: the clock stands still in between */
void spec_world_advance(lua_State *L, struct engine *e);
/* seed (n): tide.random repeats */
void spec_world_seed(lua_State *L, struct engine *e);
/* shared (key [, value [, ttl]]) -> what tide.shared has under the key; with a value it
 * is set, with nil it is removed. TIDE_ELIMIT: there is no room. */
TIDE_MUST_USE int spec_world_shared(lua_State *L, struct engine *e, struct error *err);
/* shared_list ([prefix]) -> the keys that begin with it, sorted */
void spec_world_shared_list(lua_State *L, struct engine *e);
/* shared_ttl (key) -> milliseconds until it expires; nil: it does not, or is not there */
void spec_world_shared_ttl(lua_State *L, struct engine *e);
/* counters () -> the values of tide.counter by name */
void spec_world_counters(lua_State *L, struct engine *e);
/* log () -> the lines since the last call: { "warn filter/10-x.lua:3: text", … } */
void spec_world_log(lua_State *L, struct engine *e);
/* traceback () -> the stack of Lua of the last call's error, a line for each function; ""
 * for none */
void spec_world_traceback(lua_State *L, struct engine *e);
