#include "spec_field.h"

#include <lauxlib.h>

#include "rules/sandbox/field.h"

lua_Integer spec_field_integer(lua_State *L, int idx, const char *name,
			       lua_Integer preset)
{
	lua_getfield(L, idx, name);
	lua_Integer n = luaL_optinteger(L, -1, preset);
	lua_pop(L, 1);
	return n;
}

bool spec_field_is_there(lua_State *L, int idx, const char *name)
{
	bool is_there = lua_getfield(L, idx, name) != LUA_TNIL;

	lua_pop(L, 1);
	return is_there;
}

bool spec_field_flag(lua_State *L, int idx, const char *name)
{
	lua_getfield(L, idx, name);
	bool is_set = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return is_set;
}

const char *spec_field_text(lua_State *L, int idx, const char *name, const char *preset)
{
	lua_getfield(L, idx, name);
	return luaL_optstring(L, -1, preset);
}

struct slice spec_field_slice(lua_State *L, int idx, const char *name, const char *preset)
{
	return slice_from(spec_field_text(L, idx, name, preset));
}

void spec_field_set_integer(lua_State *L, const char *name, int64_t value)
{
	lua_pushinteger(L, value);
	lua_setfield(L, -2, name);
}

void spec_field_set_text(lua_State *L, const char *name, const char *text)
{
	lua_pushstring(L, text);
	lua_setfield(L, -2, name);
}

void spec_field_set_slice(lua_State *L, const char *name, struct slice value)
{
	field_push(L, value);
	lua_setfield(L, -2, name);
}

void spec_field_set_headers(lua_State *L, const struct msg *m)
{
	lua_newtable(L);
	for (unsigned i = 0; i < m->header_count; i++) {
		field_push(L, m->headers[i].name);
		field_push(L, m->headers[i].value);
		lua_rawset(L, -3);
	}
	lua_setfield(L, -2, "headers");
}

void spec_field_set_list(lua_State *L, const char *name, const char *const *texts,
			 size_t count)
{
	lua_newtable(L);
	for (size_t i = 0; i < count; i++) {
		lua_pushstring(L, texts[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_setfield(L, -2, name);
}
