/* api_msgpack.h: tide.msgpack. */
#pragma once

#include <lua.h>

/* Add the table `msgpack` to the one on the top. May raise. */
void api_msgpack_add(lua_State *L);
