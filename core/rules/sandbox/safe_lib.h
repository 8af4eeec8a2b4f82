/* safe_lib.h: the standard functions, in which a script cannot hide time or memory.
 *
 * Why not Lua's own: a hook interrupts instructions, not C. Where C calls C in a loop (a
 * metamethod that is a library function, the order of a sort, a replacement for gsub),
 * no instruction comes in between. These rules hold instead:
 *
 * - Every library function checks the budgets when it is called (script_check). So does
 *   every turn of a loop that calls a function or a metamethod of a script.
 * - What one call does besides is bounded: by the longest text (SCRIPT_STRING_MAX), by
 *   SAFE_TABLE_MAX elements, by SAFE_STRING_MAX made at once.
 *
 * tests/unit/rules/engine/test_ceiling.c calls every function from every such loop.
 * pattern.h has the pattern functions, safe_lib.c those of `table` and
 * setmetatable. pcall and xpcall pass on the error of a used-up budget. */
#pragma once

#include <lua.h>
#include <stdbool.h>

/* The longest result of string.rep, '%q' and the widths of string.pack. The most elements
 * that a function of `table` handles. */
#define SAFE_STRING_MAX (1024 * 1024)
#define SAFE_TABLE_MAX (256 * 1024)

/* Replace the originals in the table of globals at `idx`, which has the standard
 * libraries. May raise. */
void safe_lib_install(lua_State *L, int idx);

/* Give the environment at `idx`, which has setmetatable, functions that know whose they
 * are: getmetatable, setmetatable and rawset. */
void safe_lib_bind_meta(lua_State *L, int idx);

/* A key of metatables that no script gets hold of: the table stands in for another one,
 * and the metatable has `next`, `rawget`, `rawlen` and `rawset` for it. */
extern const char safe_lib_stand_in;
/* The table at `idx` is going to be read with lua_next or lua_rawget. A view
 * (read_only.h) is replaced by the table that it shows, what stands in for another one by
 * a copy of what that would be. */
void safe_lib_unfold(lua_State *L, int idx);

/* luaL_tolstring without the address of a value: a table is "table", or its __name. */
const char *safe_lib_tolstring(lua_State *L, int idx, size_t *len);

/* next, with a check of the budgets. */
int safe_lib_next(lua_State *L);
