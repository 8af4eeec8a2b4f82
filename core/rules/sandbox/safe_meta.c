/* safe_meta.c: setmetatable, without __gc, __concat and weak keys.
 *
 * A table with weak keys (an ephemeron table) makes the collector go over it once
 * for each link of a chain of its entries: seconds, in one step that nothing
 * interrupts. Lua looks at __mode in the metatable when it collects, so a look at it
 * when it is set is not enough: a script could write it later. So a table's real
 * metatable is one of ours, which no script gets hold of: it has the metamethods
 * that the script's metatable had when it was given to setmetatable, last for any
 * table, and getmetatable gives the script's. Weak values, with weak keys or without,
 * are one pass, and allowed.
 *
 * __concat is out because Lua up to 5.4.4 goes on with a stale pointer to its stack
 * when a __concat in the middle of `a .. b .. c` has made the stack grow, or only been
 * called near its end: any script that has one can crash the broker.
 *
 * There is one real metatable for all tables with the same one of the script's,
 * found in a table of the registry with weak keys and values, so that neither keeps
 * the other alive there. */

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "safe_lib.h"
#include "script.h"

static const char *const copied[] = {
	"__add", "__band", "__bnot", "__bor",      "__bxor",     "__call",  "__close",
	"__div", "__eq",   "__idiv", "__index",    "__le",       "__len",   "__lt",
	"__mod", "__mode", "__mul",  "__name",     "__newindex", "__pairs", "__pow",
	"__shl", "__shr",  "__sub",  "__tostring", "__unm",
};
#define COPIED_COUNT (sizeof(copied) / sizeof(copied[0]))

/* Registry: the real metatables by the scripts' ones. In a real one: whether its
 * tables may get another. */
static const char reals_key;
static const char real_key;

/* The script's metatable is at `theirs`. */
static void check_metatable(lua_State *L, int theirs)
{
	lua_pushliteral(L, "__gc");
	if (lua_rawget(L, theirs) != LUA_TNIL)
		luaL_error(L, "a script's metatable cannot have __gc");
	lua_pushliteral(L, "__concat");
	if (lua_rawget(L, theirs) != LUA_TNIL)
		luaL_error(L, "a script's metatable cannot have __concat; write a "
			      "method, or __add");
	lua_pushliteral(L, "__mode");
	const char *mode = "";
	if (lua_rawget(L, theirs) == LUA_TSTRING)
		mode = lua_tostring(L, -1);
	if (strchr(mode, 'k') && !strchr(mode, 'v'))
		luaL_error(L, "a script's metatable cannot have __mode 'k'; it may have "
			      "'v' or 'kv'");
	lua_pop(L, 3);
}

/* Push the real metatable of the script's one, made anew when there is none. */
static void push_real(lua_State *L, int theirs)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &reals_key);
	lua_pushvalue(L, theirs);
	if (lua_rawget(L, -2) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_newtable(L);
		lua_pushvalue(L, theirs);
		lua_pushvalue(L, -2);
		lua_rawset(L, -4);
	}
	lua_remove(L, -2);
}

/* The names are upvalues, from the second on: to make strings of them each time
 * would cost more than all the rest. */
static void copy_metamethods(lua_State *L, int theirs, int real)
{
	for (int i = 0; i < (int)COPIED_COUNT; i++) {
		lua_pushvalue(L, lua_upvalueindex(2 + i));
		lua_pushvalue(L, -1);
		lua_rawget(L, theirs);
		lua_rawset(L, real);
	}
	/* What getmetatable gives. */
	lua_pushliteral(L, "__metatable");
	lua_pushvalue(L, -1);
	bool is_open = lua_rawget(L, theirs) == LUA_TNIL;
	if (is_open) {
		lua_pop(L, 1);
		lua_pushvalue(L, theirs);
	}
	lua_rawset(L, real);
	lua_pushboolean(L, is_open);
	lua_rawsetp(L, real, &real_key);
}

/* Whether the table at 1 may get another metatable: it has none, or one of ours
 * for one of a script's without __metatable. */
static bool is_open(lua_State *L)
{
	if (!lua_getmetatable(L, 1))
		return true;
	lua_rawgetp(L, -1, &real_key);
	bool result = lua_toboolean(L, -1);
	lua_pop(L, 2);
	return result;
}

/* setmetatable (table, metatable) */
static int l_setmetatable(lua_State *L)
{
	script_check(L);
	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_argexpected(L, lua_isnil(L, 2) || lua_istable(L, 2), 2, "nil or table");
	lua_settop(L, 2);
	if (!is_open(L))
		return luaL_error(L, "cannot change a protected metatable");
	if (lua_istable(L, 2)) {
		check_metatable(L, 2);
		push_real(L, 2);
		copy_metamethods(L, 2, 3);
	}
	lua_setmetatable(L, 1);
	lua_settop(L, 1);
	return 1;
}

void safe_meta_install(lua_State *L, int idx)
{
	idx = lua_absindex(L, idx);
	lua_newtable(L);
	lua_createtable(L, 0, 1);
	lua_pushliteral(L, "kv");
	lua_setfield(L, -2, "__mode");
	lua_setmetatable(L, -2);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &reals_key);
	lua_pushnil(L); /* in the place of an original */
	for (size_t i = 0; i < COPIED_COUNT; i++)
		lua_pushstring(L, copied[i]);
	lua_pushcclosure(L, l_setmetatable, 1 + COPIED_COUNT);
	lua_setfield(L, idx, "setmetatable");
}
