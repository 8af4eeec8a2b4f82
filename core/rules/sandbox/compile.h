/* compile.h: text into a function, within the budgets.
 *
 * Lua's compiler runs no hook, and walks its lists of jumps from end to end for each
 * "or", each "elseif": a few thousand of them take seconds. It gets the text in pieces so
 * small that little happens in one, and the budget is looked at before each.
 * source_limits.h has what else is limited. */
#pragma once

#include <lua.h>

#include "base/slice.h"

/* Push the function, or what is wrong. The text stays the caller's: nothing is raised
 * before it may be freed.
 *
 * @param name  of the file, in errors
 * @return      LUA_OK, or Lua's code of the error. If the budget is used up, script_check
 *              raises what is pushed */
int compile_text(lua_State *L, struct slice text, const char *name);

/* Add `load` to the environment at `idx`, which is that of the file `name`. */
void compile_add_load(lua_State *L, int idx, const char *name);
