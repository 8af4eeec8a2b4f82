/* pattern.h: the pattern functions of Lua's string library, with a budget.
 *
 * Why not Lua's own: its matcher is a C function, and no hook interrupts it. A pattern of
 * a few dozen bytes can keep it busy for years. This matcher has the language of section
 * 6.4.1 of the manual, and counts its steps.
 *
 * A pattern is compiled into a row of items. There are no alternatives. To go back is to
 * go to the nearest repetition before; what follows it is matched again. A match
 * therefore needs one choice for each repetition, whatever the subject is, and no
 * recursion. Captures need no restoring: those before the repetition stay, those behind
 * it are set again before they are read.
 *
 * A wrong pattern is refused when it is compiled, even if the match would not reach the
 * wrong part. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

/* The steps of one call, of 1 to 3 ns each. Each byte of the subject adds some, enough
 * for one pass over a large payload. */
#define PATTERN_STEPS 1000000
#define PATTERN_STEPS_PER_BYTE 32

/* Replace find, match, gmatch and gsub in the table at `idx`. */
void pattern_lib_install(lua_State *L, int idx);
