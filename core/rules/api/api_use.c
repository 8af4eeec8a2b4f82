#include "api_use.h"

#include <ctype.h>
#include <lauxlib.h>
#include <string.h>

#include "rules/sandbox/field.h"
#include "rules/sandbox/script.h"

static const char metatable_key; /* in the registry */

static bool is_name(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.data[i];

		if (!isalnum(c) && c != '_' && c != '-')
			return false;
	}
	return name.len > 0 && name.len <= API_USE_NAME_MAX;
}

static int line_of_caller(lua_State *L)
{
	lua_Debug where;

	if (!lua_getstack(L, 1, &where) || !lua_getinfo(L, "l", &where))
		return 1;
	return where.currentline > 0 ? where.currentline : 1;
}

/* use (name [, settings]) -> what the file returns */
static int l_use(lua_State *L)
{
	struct api_use *use;

	luaL_checkstring(L, 1);
	luaL_argcheck(L, is_name(field_slice(L, 1)), 1,
		      "not the name of a script: write it as in DECLARE, without folder "
		      "and .lua");
	if (lua_isnoneornil(L, 2)) {
		lua_settop(L, 1);
		lua_newtable(L);
	}
	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	if (!script_state_of(L)->is_loading)
		return luaL_error(L, "tide.use is for the end of a file: return "
				     "tide.use(\"name\", { … })");
	use = lua_newuserdatauv(L, sizeof(*use), 1);
	strcpy(use->name, lua_tostring(L, 1));
	use->line = line_of_caller(L);
	lua_pushvalue(L, 2);
	lua_setiuservalue(L, -2, 1);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
	lua_setmetatable(L, -2);
	return 1;
}

void api_use_add(lua_State *L)
{
	lua_createtable(L, 0, 2);
	lua_pushliteral(L, "tide.use");
	lua_setfield(L, -2, "__name");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
	lua_pushcfunction(L, l_use);
	lua_setfield(L, -2, "use");
}

const struct api_use *api_use_at_top(lua_State *L)
{
	const struct api_use *use = NULL;

	if (lua_type(L, -1) != LUA_TUSERDATA || !lua_getmetatable(L, -1))
		return NULL;
	lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
	if (lua_rawequal(L, -1, -2))
		use = lua_touserdata(L, -3);
	lua_pop(L, 2);
	return use;
}

void api_use_push_settings(lua_State *L)
{
	lua_getiuservalue(L, -1, 1);
}
