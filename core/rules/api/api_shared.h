/* api_shared.h: tide.shared, tide.counter and tide.bucket: what scripts keep
 * beyond a generation.
 *
 * All three are in the one dictionary of the engine (shared.h). A bucket is the
 * time at which it will be full again (GCRA), and expires then. In a dry run
 * every function answers as it would, and changes nothing; while files are loaded,
 * which may come to nothing, changing is an error. */
#ifndef TIDE_RULES_API_API_SHARED_H
#define TIDE_RULES_API_API_SHARED_H

#include <lua.h>

struct engine;

/* Add the functions to the table `tide`, which is on the top. May raise. */
void api_shared_add(lua_State *L, struct engine *e);

#endif
