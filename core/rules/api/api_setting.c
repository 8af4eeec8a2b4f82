#include "api_setting.h"

#include <lauxlib.h>

#include "base/args.h"

/* setting (name [, default]) -> text, or the default, or nil */
static int l_setting(lua_State *L)
{
	const struct args *settings = lua_touserdata(L, lua_upvalueindex(1));
	const char *value = args_get(settings, luaL_checkstring(L, 1));

	lua_settop(L, 2);
	if (value)
		lua_pushstring(L, value);
	return 1;
}

void api_setting_add(lua_State *L, const struct args *settings)
{
	lua_pushlightuserdata(L, (void *)settings);
	lua_pushcclosure(L, l_setting, 1);
	lua_setfield(L, -2, "setting");
}
