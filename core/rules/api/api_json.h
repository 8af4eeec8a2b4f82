/* api_json.h: tide.json. */
#pragma once

#include <lua.h>

#include "base/slice.h"

/* Add the table `json` to the one on the top. May raise, as do all. */
void api_json_add(lua_State *L);
/* The value at `idx` as JSON, good until the next call of a function of tide.json. */
struct slice api_json_text(lua_State *L, int idx);
