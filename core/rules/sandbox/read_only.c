#include "read_only.h"

#include <lauxlib.h>

/* In the metatable of a view: what it shows. Registry: the deep views by what they show,
 * so that two reads of a field are equal; with weak keys and values. */
static const char shown_key;
static const char views_key;

void read_only_open(lua_State *L)
{
	lua_newtable(L);
	lua_createtable(L, 0, 1);
	lua_pushliteral(L, "kv");
	lua_setfield(L, -2, "__mode");
	lua_setmetatable(L, -2);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &views_key);
}

bool read_only_see_through(lua_State *L, int idx)
{
	idx = lua_absindex(L, idx);
	if (!lua_istable(L, idx) || !lua_getmetatable(L, idx))
		return false;
	bool is_view = lua_rawgetp(L, -1, &shown_key) != LUA_TNIL;
	if (is_view)
		lua_copy(L, -1, idx);
	lua_pop(L, 2);
	return is_view;
}

static int l_newindex(lua_State *L)
{
	return luaL_error(L, "this table is read-only");
}

static int l_index(lua_State *L)
{
	lua_settop(L, 2);
	read_only_see_through(L, 2); /* a key of pairs */
	lua_gettable(L, lua_upvalueindex(1));
	read_only_show(L);
	return 1;
}

static int l_len(lua_State *L)
{
	lua_pushinteger(L, luaL_len(L, lua_upvalueindex(1)));
	return 1;
}

/* The metamethods that a view passes on to its table: an operator or a call gets the
 * view. */
static const char *const passed_on[] = { "__call", "__tostring", "__name", "__eq",
					 "__lt",   "__le",       "__unm",  "__add",
					 "__sub",  "__mul",      "__div",  "__mod",
					 "__pow",  "__idiv" };

/* Copy them from the table at `table` to the metatable on the top. */
static void pass_on(lua_State *L, int table)
{
	if (!lua_getmetatable(L, table))
		return;
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
		lua_pushstring(L, passed_on[i]);
		lua_pushvalue(L, -1);
		lua_rawget(L, -3);
		if (lua_isfunction(L, -1) || lua_isstring(L, -1))
			lua_rawset(L, -4);
		else
			lua_pop(L, 2);
	}
	lua_pop(L, 1);
}

/* Push a view of the table on the top. */
static void push_view(lua_State *L, bool is_deep)
{
	int table = lua_gettop(L);

	lua_newtable(L);
	lua_createtable(L, 0, 5);
	if (is_deep)
		pass_on(L, table);
	lua_pushvalue(L, table);
	if (is_deep)
		lua_pushcclosure(L, l_index, 1);
	lua_setfield(L, -2, "__index");
	lua_pushvalue(L, table);
	lua_pushcclosure(L, l_len, 1);
	lua_setfield(L, -2, "__len");
	lua_pushcfunction(L, l_newindex);
	lua_setfield(L, -2, "__newindex");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_pushvalue(L, table);
	lua_rawsetp(L, -2, &shown_key);
	lua_setmetatable(L, -2);
}

void read_only_protect(lua_State *L)
{
	push_view(L, false);
	lua_remove(L, -2);
}

static bool is_view(lua_State *L)
{
	lua_pushvalue(L, -1);
	bool result = read_only_see_through(L, -1);
	lua_pop(L, 1);
	return result;
}

void read_only_show(lua_State *L)
{
	if (!lua_istable(L, -1) || is_view(L))
		return;
	luaL_checkstack(L, 12, NULL);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &views_key);
	lua_pushvalue(L, -2);
	if (lua_rawget(L, -2) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_pushvalue(L, -2);
		push_view(L, true);
		lua_pushvalue(L, -2);
		lua_pushvalue(L, -2);
		lua_rawset(L, -5); /* the table, its view */
		lua_remove(L, -2);
	}
	lua_replace(L, -3);
	lua_pop(L, 1);
}
