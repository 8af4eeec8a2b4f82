/* compile.h: text into a function, within the budgets.
 *
 * Lua's compiler runs no hook, and walks its lists of jumps from end to end for each
 * "or", each "elseif": a few thousand of them take seconds. It gets the text in pieces so
 * small that little happens in one, and the budget is looked at before each. What Lua
 * itself would need too long for within one piece is refused before. */
#pragma once

#include <lua.h>

#include "base/slice.h"
#include "source.h"

/* Push the function, or what is wrong. The text stays the caller's: nothing is raised
 * before it may be freed.
 *
 * @param name  of the file, in errors
 * @return      LUA_OK, or Lua's code of the error. If the budget is used up, script_check
 *              raises what is pushed */
int compile_text(lua_State *L, struct slice text, const char *name);

/* Add `load` to the environment at `idx`, which is that of the file `name`. */
void compile_add_load(lua_State *L, int idx, const char *name);

#define SOURCE_LIMITS_JUMPS 4096  /* 'goto' and 'break' in a file */
#define SOURCE_LIMITS_INDEXES 200 /* '.' and '[' in one expression */

/* TIDE_ERULE with the line of what is too much. A source that is not Lua may pass. */
TIDE_MUST_USE int compile_check_limits(const struct source *source, const char *name,
				       struct error *err);
