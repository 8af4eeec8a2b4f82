#include "field.h"

#include <lauxlib.h>
#include <string.h>

#include "base/duration.h"
#include "read_only.h"
#include "safe_lib.h"

static bool is_among(const char *name, const char *const *names)
{
	while (*names && strcmp(name, *names) != 0)
		names++;
	return *names != NULL;
}

static void refuse_name(lua_State *L, const char *owner, const char *const *names)
{
	const char *name = safe_lib_tolstring(L, -2, NULL);
	luaL_Buffer list;

	luaL_buffinit(L, &list);
	for (size_t i = 0; names[i]; i++) {
		luaL_addstring(&list, i > 0 ? ", " : "");
		luaL_addstring(&list, names[i]);
	}
	luaL_pushresult(&list);
	luaL_error(L, "%s has no '%s'; it has %s", owner, name, lua_tostring(L, -1));
}

void field_check_names(lua_State *L, int table, const char *owner,
		       const char *const *names)
{
	lua_pushvalue(L, table);
	read_only_see_through(L, -1);
	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
		if (lua_type(L, -2) != LUA_TSTRING ||
		    !is_among(lua_tostring(L, -2), names))
			refuse_name(L, owner, names);
	}
	lua_pop(L, 1);
}

struct slice field_text(lua_State *L, int table, const char *name)
{
	int type = lua_getfield(L, table, name);

	if (type != LUA_TSTRING && type != LUA_TNIL)
		luaL_error(L, "'%s' must be a text, not a %s", name,
			   luaL_typename(L, -1));
	return field_slice(L, -1);
}

int64_t field_duration(lua_State *L, int table, const char *name)
{
	struct slice text = field_text(L, table, name);
	int64_t ms = 0;

	if (text.data && duration_parse(text, &ms) != TIDE_OK)
		luaL_error(L, "'%s' is '%s'; " FIELD_DURATIONS, name, text.data);
	return ms;
}

bool field_boolean(lua_State *L, int table, const char *name, bool preset)
{
	int type = lua_getfield(L, table, name);

	if (type != LUA_TNIL && type != LUA_TBOOLEAN)
		luaL_error(L, "'%s' must be true or false, not a %s", name,
			   luaL_typename(L, -1));
	return type == LUA_TNIL ? preset : lua_toboolean(L, -1);
}
