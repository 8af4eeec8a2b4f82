/* spec_declare.h: the policies of declare/, asked by a spec. */
#pragma once

#include <lua.h>

#include "rules/engine/engine.h"

/* Argument 2 is what is declared: { kind =, name =, options =, vhost =, user =, type = }.
 * Pushes its options as the policies leave them, and the files that changed them, or nil.
 * Raises for wrong arguments. */
#define SPEC_DECLARE_RESULTS 2
TIDE_MUST_USE int spec_declare_ask(lua_State *L, struct engine *e, struct error *err);
