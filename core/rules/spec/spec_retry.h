/* spec_retry.h: what a retry script did besides its answer, for a spec. */
#pragma once

#include <lua.h>

#include "rules/engine/strategy.h"

/* Push { exchange =, key =, msg =, copies = }. The reference is taken. */
void spec_retry_push_take(lua_State *L, struct retry_extra *extra);
