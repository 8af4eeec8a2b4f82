/* spec_connect.h: engine:connect, for a spec. */
#pragma once

#include <lua.h>

#include "rules/engine/engine.h"

struct decision_context;

/* connect { user =, vhost =, name =, address =, … }: push what the scripts choose, a
 * table with name, vhost, limits and file, or nil, the reason and the file. Gives how
 * many values that are. */
int spec_connect(lua_State *L, struct engine *e, struct decision_context *context);
