/* api_json.h: tide.json.decode. */
#pragma once

#include <lua.h>

#define API_JSON_TEXT_MAX ((size_t)256 * 1024)
#define API_JSON_DEPTH_MAX 32

/* decode (text) -> value, or nil and a message. A null becomes nil: a member that is not
 * there, or an element that is missing. A name that is there twice is an error. */
int api_json_decode(lua_State *L);
