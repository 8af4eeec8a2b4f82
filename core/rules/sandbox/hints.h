/* hints.h: what an error of a script says besides what Lua says: what to use in the place
 * of a library that scripts do not have, and the stack.
 *
 *   filter/10-x.lua:3: attempt to index a nil value (global 'os'); scripts have no 'os':
 *   use tide.now() for the time
 *
 * Nothing is paid before a name is missing. All functions run inside script_enter and may
 * raise. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

struct script_state;

/* What becomes of a read of a field that is missing: nil, which an error about it will
 * explain; or an error at once. */
enum hints_guard { HINTS_EXPLAIN, HINTS_REFUSE };

/* Guard the table on the top, which scripts know as `name`: "math". It gets a
 * metatable, unless it has one. A view is seen through. */
void hints_guard(lua_State *L, const char *name, enum hints_guard how);

/* Inside a message handler: if the text on the top is Lua's error about a missing
 * variable or field, and there is a hint, add it. */
void hints_add(lua_State *L);

/* The n-th name that Lua has and scripts lack: "os", "math.random". NULL after the last.
 */
const char *hints_absent(size_t number);
/* The replacement for a function that scripts lack; NULL if there is no advice. `owner`
 * is "" or a library. */
const char *hints_instead(const char *owner, const char *name);

/* Push what to say about a module that was not found, or cannot be one: "", or "; …". */
void hints_push_module(lua_State *L, const char *name);

/* For a message handler: write the stack of Lua to `out`, a line for each function:
 *
 *   filter/10-x.lua:3: in function 'amount_of'
 *   filter/10-x.lua:9: in function 'publish'
 *
 * The innermost function is first. The lines are whole, have names and lines of scripts,
 * and no values. A name with a secret in it is left out. Allocates nothing in the state.
 */
void hints_write_traceback(lua_State *L, const struct script_state *s, char *out,
			   size_t max);
