/* spec_field.h: the fields of the tables that specs give. */
#pragma once

#include <lauxlib.h>
#include <stdbool.h>

static inline lua_Integer spec_field_integer(lua_State *L, int idx, const char *name,
					     lua_Integer preset)
{
	lua_getfield(L, idx, name);
	lua_Integer n = luaL_optinteger(L, -1, preset);
	lua_pop(L, 1);
	return n;
}

static inline bool spec_field_is_there(lua_State *L, int idx, const char *name)
{
	bool is_there = lua_getfield(L, idx, name) != LUA_TNIL;

	lua_pop(L, 1);
	return is_there;
}

/* The text stays on the stack. */
static inline const char *spec_field_text(lua_State *L, int idx, const char *name,
					  const char *preset)
{
	lua_getfield(L, idx, name);
	return luaL_optstring(L, -1, preset);
}
