/* spec_strategy.h: strategies in specs: pick, rank, decide. */
#pragma once

#include <lua.h>

/* Before the first one. */
void spec_strategy_open(lua_State *L);
/* engine:strategy (kind, name [, options]) -> a use of the script */
int spec_strategy_create(lua_State *L);
