#include "spec_box.h"

#include <lauxlib.h>

void *spec_box_check(lua_State *L, const char *type)
{
	struct spec_box *box = luaL_checkudata(L, 1, type);

	luaL_argcheck(L, box->object != NULL, 1, "is closed");
	return box->object;
}

struct spec_box *spec_box_push(lua_State *L, const char *type, int owner)
{
	struct spec_box *box = lua_newuserdatauv(L, sizeof(*box), 1);

	*box = (struct spec_box){ .object = NULL };
	luaL_setmetatable(L, type);
	if (owner) {
		lua_pushvalue(L, owner);
		lua_setiuservalue(L, -2, 1);
	}
	return box;
}

struct decision_context *spec_box_context(lua_State *L)
{
	bool is_owned = lua_getiuservalue(L, 1, 1) == LUA_TUSERDATA;
	struct spec_box *box = lua_touserdata(L, is_owned ? -1 : 1);

	lua_pop(L, 1);
	return box->context;
}

int spec_box_answer(lua_State *L, int rc, const struct error *err)
{
	if (rc == TIDE_OK)
		return 1;
	lua_pushnil(L);
	lua_pushstring(L, err->text);
	lua_pushstring(L, error_wire_code(rc));
	return 3;
}

void spec_box_args(lua_State *L, int idx, struct args *out)
{
	*out = (struct args){ 0 };
	if (!lua_istable(L, idx))
		return;
	for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 2)) {
		const char *value = luaL_tolstring(L, -1, NULL);
		if (args_add(out, slice_from(lua_tostring(L, -3)), slice_from(value)) ==
		    TIDE_OK)
			continue;
		args_deinit(out);
		luaL_error(L, "'%s' cannot be an option with this value",
			   lua_tostring(L, -3));
	}
}

void spec_box_type(lua_State *L, const char *type, const luaL_Reg *methods,
		   lua_CFunction close)
{
	luaL_newmetatable(L, type);
	lua_newtable(L);
	luaL_setfuncs(L, methods, 0);
	lua_pushcfunction(L, close);
	lua_setfield(L, -2, "close");
	lua_setfield(L, -2, "__index");
	lua_pushcfunction(L, close);
	lua_setfield(L, -2, "__gc");
	lua_pop(L, 1);
}
