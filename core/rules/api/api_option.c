#include "api_option.h"

#include <lauxlib.h>

/* check_option (kind, name, value) -> true; or nil and why it cannot be set */
static int l_check_option(lua_State *L)
{
	static const char *const kinds[] = { "queue", "topic", "exchange", NULL };
	api_option_fn *const *check = lua_touserdata(L, lua_upvalueindex(1));
	const char *kind = kinds[luaL_checkoption(L, 1, NULL, kinds)];
	struct arg option = { .name = (char *)luaL_checkstring(L, 2) };
	struct error err;

	option.value = (char *)luaL_checklstring(L, 3, &option.value_len);
	if (*check && (*check)(kind, &option, &err) < 0) {
		lua_pushnil(L);
		lua_pushstring(L, err.text);
		return 2;
	}
	lua_pushboolean(L, 1);
	return 1;
}

void api_option_add(lua_State *L, api_option_fn *const *check)
{
	lua_pushlightuserdata(L, (void *)(uintptr_t)check);
	lua_pushcclosure(L, l_check_option, 1);
	lua_setfield(L, -2, "check_option");
}
