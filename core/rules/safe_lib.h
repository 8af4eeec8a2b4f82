/* safe_lib.h: the standard functions that could hurt, with their limits.
 *
 * A hook does not interrupt a C function, so those that could run for long get
 * bounds on what they are asked for, and the pattern functions are ours
 * (pattern.h); pcall and xpcall let the error of an
 * overrun through; setmetatable refuses __gc. */
#ifndef TIDE_RULES_SAFE_LIB_H
#define TIDE_RULES_SAFE_LIB_H

#include <lua.h>

/* The longest result of string.rep and of the widths in string.pack; the most elements a
 * function of `table` works on. */
#define SAFE_STRING_MAX (1024 * 1024)
#define SAFE_TABLE_MAX (256 * 1024)

/* Put the safe functions in the place of the originals in the table of globals
 * at `idx`, which has the standard libraries. May raise. */
void safe_lib_install(lua_State *L, int idx);

#endif
