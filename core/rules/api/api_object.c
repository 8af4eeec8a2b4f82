#include "api_object.h"

#include "rules/sandbox/read_only.h"

void api_object_make(lua_State *L)
{
	lua_pushvalue(L, lua_upvalueindex(2));
	lua_setmetatable(L, -2);
}

void *api_object_check(lua_State *L)
{
	void *object = lua_touserdata(L, 1);

	if (object && lua_getmetatable(L, 1) &&
	    lua_rawequal(L, -1, lua_upvalueindex(2))) {
		lua_pop(L, 1);
		return object;
	}
	lua_getfield(L, lua_upvalueindex(2), "__name");
	luaL_error(L, "call this as a method of a %s, with ':'", lua_tostring(L, -1));
	return NULL;
}

void api_object_add(lua_State *L, struct api_tide *t, const struct api_object *o)
{
	lua_newtable(L); /* the metatable */
	lua_newtable(L);
	lua_pushlightuserdata(L, t);
	lua_pushvalue(L, -3);
	luaL_setfuncs(L, o->methods, 2);
	read_only_protect(L);
	lua_setfield(L, -2, "__index");
	lua_pushstring(L, o->type);
	lua_setfield(L, -2, "__name");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_pushlightuserdata(L, t);
	lua_insert(L, -2);
	lua_pushcclosure(L, o->create, 2);
	lua_setfield(L, -2, o->type);
}
