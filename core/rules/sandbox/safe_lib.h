/* safe_lib.h: the standard functions, so that none of them hides time or memory.
 *
 * A hook interrupts instructions, not C. Where C calls C in a loop (a metamethod
 * that is a library function, an order for a sort, a replacement for gsub) there is
 * no instruction in between, so this is what holds instead:
 *
 * - every library function that a script can reach looks at the budgets when it is
 *   called (script_check), and so does every turn of a loop that calls a script's
 *   function or metamethod;
 * - what one call does beside that is bounded: by the longest text
 *   (SCRIPT_STRING_MAX), by SAFE_TABLE_MAX elements, by SAFE_STRING_MAX made at once.
 *
 * tests/unit/rules/test_ceiling.c calls every function from every such loop. The
 * pattern functions are ours (pattern.h), those of `table` too (safe_table.c); pcall
 * and xpcall let the error of a used-up budget through; setmetatable is described
 * in safe_meta.c. */
#ifndef TIDE_RULES_SANDBOX_SAFE_LIB_H
#define TIDE_RULES_SANDBOX_SAFE_LIB_H

#include <lua.h>

/* The longest result of string.rep, of the widths in string.pack and of '%q'; the
 * most elements a function of `table` works on. */
#define SAFE_STRING_MAX (1024 * 1024)
#define SAFE_TABLE_MAX (256 * 1024)

/* Put the safe functions in the place of the originals in the table of globals
 * at `idx`, which has the standard libraries. May raise. */
void safe_lib_install(lua_State *L, int idx);

/* For safe_lib.c: insert, remove, move, concat, unpack and sort into the table at
 * `idx`, which has the originals; getmetatable and setmetatable into that at `idx`. */
void safe_table_install(lua_State *L, int idx);
void safe_meta_install(lua_State *L, int idx);

/* Call the library's function that is the first upvalue, in this one's place: none
 * of them has upvalues of its own. */
int safe_lib_call_original(lua_State *L);
/* Put `function`, with the original as its upvalue, in the place of `name`. */
void safe_lib_wrap(lua_State *L, int idx, const char *name, lua_CFunction function);

#endif
