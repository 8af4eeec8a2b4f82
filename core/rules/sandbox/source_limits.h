/* source_limits.h: what a script may contain, beyond what Lua's compiler asks.
 *
 * - A label, or the end of a loop, makes the compiler take all jumps to it out of their
 *   list one by one, moving the others up, in one go.
 * - For the name in "attempt to index a nil value (field 'x')" Lua goes back through all
 *   of `a.b.c.x`, for each index through the whole function, and up to 5.4.6 calls itself
 *   for each: 60,000 take seconds, 120,000 overflow the stack of C. */
#pragma once

#include "source.h"

#define SOURCE_LIMITS_JUMPS 4096  /* 'goto' and 'break' in a file */
#define SOURCE_LIMITS_INDEXES 200 /* '.' and '[' in one expression */

/* TIDE_ERULE with the line of what is too much. A source that is not Lua may pass. */
TIDE_MUST_USE int source_limits_check(const struct source *source, const char *name,
				      struct error *err);
