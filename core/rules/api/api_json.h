/* api_json.h: tide.json: values of Lua as JSON, and JSON as tables.
 *
 * A table whose keys are 1 to n is an array. One whose keys are texts is an object, and
 * so is an empty one, unless tide.json.array has marked it. All other tables are refused.
 * Objects are written in the order of their names: equal values are equal texts. */
#pragma once

#include <lua.h>

#include "base/slice.h"

/* Add the table `json` to the one on the top. May raise, as do all. */
void api_json_add(lua_State *L);
/* The value at `idx` as JSON of up to DOCUMENT_BYTES_MAX, good until the next call of a
 * function of tide.json. */
struct slice api_json_text(lua_State *L, int idx);
