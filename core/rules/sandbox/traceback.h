/* traceback.h: the stack of Lua where an error is, a line for each function:
 *
 *   filter/10-x.lua:3: in function 'amount_of'
 *   filter/10-x.lua:9: in function 'publish'
 *
 * The innermost function is first. It shows names and lines of scripts, and no values. */
#pragma once

#include <lua.h>
#include <stddef.h>

struct script_state;

/* For a message handler. Allocates nothing in the state. `out` gets whole lines. A name
 * that has a secret in it is left out. */
void traceback_write(lua_State *L, const struct script_state *s, char *out, size_t max);
