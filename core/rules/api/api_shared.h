/* api_shared.h: what tide.shared and the metrics of scripts have in common.
 *
 * All functions may raise. */
#pragma once

#include <lua.h>

#include "shared.h"

/* The dictionary of the call under way. Upvalue 1 is the api_tide. */
struct shared *api_shared_of(lua_State *L);

/* An operation that the script of the call under way pays for, without a time. */
struct shared_op api_shared_op(lua_State *L, enum shared_space space, struct slice key);
/* It is about to change something. */
void api_shared_allow(lua_State *L, struct shared_op *op);

/* A number, 1 when left out. */
void api_shared_check_number(lua_State *L, int arg, struct shared_value *out);
void api_shared_push(lua_State *L, const struct shared_value *v);
