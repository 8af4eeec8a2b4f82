/* hints.h: what an error of a script says besides what Lua says: what to use in the place
 * of a library that scripts do not have, and which name was meant.
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

/* What becomes of a read of a field that is missing: nil, which an error about it will
 * explain; or an error at once. */
enum hints_guard { HINTS_EXPLAIN, HINTS_REFUSE };

/* Guard the table on the top, which scripts know as `name`: "math". It gets a
 * metatable, unless it has one. A view is seen through. */
void hints_guard(lua_State *L, const char *name, enum hints_guard how);

/* The key of the table at `idx` that `name` was probably meant to be; NULL: none is near.
 * Good while the table has it. */
const char *hints_nearest(lua_State *L, int idx, const char *name);

/* Inside a message handler: if the text on the top is Lua's error about a missing
 * variable or field, and there is a hint, add it. */
void hints_add(lua_State *L);

/* What scripts do not have and Lua does, one after the other: "os", "math.random". NULL
 * after the last. */
const char *hints_absent(size_t number);
/* What to use in the place of such a one; NULL: it is none. `owner` is "" or a library.
 */
const char *hints_instead(const char *owner, const char *name);

/* Push what to say about a module that was not found, or cannot be one: "", or "; …". */
void hints_push_module(lua_State *L, const char *name);
