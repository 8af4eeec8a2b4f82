/* spec_auth.h: the scripts of auth/ and connect/, asked by a spec. */
#pragma once

#include <lua.h>

#include "rules/engine/auth.h"

/* The results that the first two push: "allow", "refuse" or "none"; the user that was
 * made (a table), or the reason, or nil; the file of the script that decided, or nil. */
#define SPEC_AUTH_RESULTS 3

/* Argument 2 is the login: { user =, password =, vhost =, name =, address =,
 * certificate =, protocol =, is_tls =, is_local = }. Raises for wrong arguments. */
TIDE_MUST_USE int spec_auth_authenticate(lua_State *L, struct engine *e,
					 struct decision_context *context,
					 struct error *err);

/* Arguments 2 to 4 are the user, { name =, vhost =, address =, is_admin =,
 * is_monitor = }, the action, and the object, { kind =, name = }. */
TIDE_MUST_USE int spec_auth_authorize(lua_State *L, struct engine *e,
				      struct decision_context *context,
				      struct error *err);

/* connect { user =, vhost =, name =, address =, … }: push what the scripts choose, a
 * table with name, vhost, limits and file, or nil, the reason and the file. Gives how
 * many values that are. */
int spec_auth_connect(lua_State *L, struct engine *e, struct decision_context *context);
