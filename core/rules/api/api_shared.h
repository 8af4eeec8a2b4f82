/* api_shared.h: tide.shared, tide.counter and tide.bucket, which scripts use to keep
 * values beyond a generation.
 *
 * All three use the one dictionary of the engine (shared.h). A bucket is the time at
 * which it is full again (GCRA), and expires then. In a dry run every function answers as
 * usual and changes nothing. While files are loaded a change is an error: the load may
 * fail. */
#ifndef TIDE_RULES_API_API_SHARED_H
#define TIDE_RULES_API_API_SHARED_H

#include <lua.h>

struct api_tide;

/* Add the functions to the table `tide` on the top. They use t->shared. May raise. */
void api_shared_add(lua_State *L, struct api_tide *t);

#endif
