/* api_object.h: userdata that functions of `tide` make: a bucket, a counter.
 *
 * The function that makes one, and the methods, have the same upvalues: 1 the api_tide,
 * 2 the metatable. All functions may raise. */
#pragma once

#include <lauxlib.h>

struct api_tide;

struct api_object {
	const char *type;     /* also the function's name in `tide` */
	lua_CFunction create; /* that function */
	const luaL_Reg *methods;
};

/* `tide` is on the top. */
void api_object_add(lua_State *L, struct api_tide *t, const struct api_object *o);

/* For `create`: the userdata on the top is one. */
void api_object_make(lua_State *L);
/* For a method: what it was called on. */
void *api_object_check(lua_State *L);
