/* safe_meta.c: setmetatable, without what a script could end the process with.
 *
 * - __gc runs at any time, outside of every budget.
 * - __close: Lua up to 5.4.4 closes the wrong variable when a loop of four values is left
 *   by a break, and writes to a stack that it has freed.
 * - __concat: Lua up to 5.4.4 goes on with a stale pointer to its stack when a __concat
 * in the middle of `a .. b .. c` has made the stack grow, or only been called near its
 * end.
 * - Weak keys alone (an ephemeron table) make the collector go over the table once for
 * each link of a chain of its entries: seconds, in one step that nothing interrupts.
 * - Weak keys and values: Lua up to 5.4.8 frees the new metatable of such a table while
 * it is in use, if the collector has seen the table before.
 *
 * Lua looks at a metatable when it needs it, so a look at it when it is set is not
 * enough: a script could write it later. So a table's real metatable is one of ours,
 * which no script gets hold of: it has the metamethods that the script's metatable had
 * when it was given to setmetatable, last for any table, and getmetatable gives the
 * script's.
 *
 * There is one real metatable for all tables with the same one of the script's, found in
 * a table of the registry with weak keys and values, so that neither keeps the other
 * alive there. That table never gets another metatable. */

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "read_only.h"
#include "safe_lib.h"
#include "script.h"

static const char *const copied[] = {
	"__add",  "__band", "__bnot",     "__bor",      "__bxor",  "__call", "__div",
	"__eq",   "__idiv", "__index",    "__le",       "__len",   "__lt",   "__mod",
	"__mode", "__mul",  "__name",     "__newindex", "__pairs", "__pow",  "__shl",
	"__shr",  "__sub",  "__tostring", "__unm",
};
#define COPIED_COUNT (sizeof(copied) / sizeof(copied[0]))

/* Registry: the real metatables by the scripts' ones. In a real one: whether its
 * tables may get another. */
static const char reals_key;
static const char real_key;

static const struct {
	const char *name, *instead;
} refused[] = {
	{ "__gc", "" },
	{ "__close", "; call a function where the block ends" },
	{ "__concat", "; write a method, or __add" },
};

/* The script's metatable is at `theirs`. */
static void check_metatable(lua_State *L, int theirs)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		lua_pushstring(L, refused[i].name);
		if (lua_rawget(L, theirs) != LUA_TNIL)
			luaL_error(L, "a script's metatable cannot have %s%s",
				   refused[i].name, refused[i].instead);
		lua_pop(L, 1);
	}
	lua_pushliteral(L, "__mode");
	if (lua_rawget(L, theirs) == LUA_TSTRING && strchr(lua_tostring(L, -1), 'k'))
		luaL_error(L,
			   "a script's metatable cannot have __mode '%s'; it may have "
			   "'v'",
			   lua_tostring(L, -1));
	lua_pop(L, 1);
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

/* On the stack: the table, the script's metatable, the same or what that shows if it is a
 * view, the real one. The names are upvalues, from the second on: to make strings of them
 * each time would cost more than all the rest. */
static void copy_metamethods(lua_State *L, bool is_view)
{
	for (int i = 0; i < (int)COPIED_COUNT; i++) {
		lua_pushvalue(L, lua_upvalueindex(2 + i));
		lua_pushvalue(L, -1);
		lua_rawget(L, 3);
		if (is_view)
			read_only_show(L);
		lua_rawset(L, 4);
	}
	/* What getmetatable gives. */
	lua_pushliteral(L, "__metatable");
	lua_pushvalue(L, -1);
	bool is_open = lua_rawget(L, 3) == LUA_TNIL;
	if (is_open) {
		lua_pop(L, 1);
		lua_pushvalue(L, 2);
	}
	if (is_view)
		read_only_show(L);
	lua_rawset(L, 4);
	lua_pushboolean(L, is_open);
	lua_rawsetp(L, 4, &real_key);
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
		lua_pushvalue(L, 2);
		bool is_view = read_only_see_through(L, 3);
		check_metatable(L, 3);
		push_real(L, 2);
		copy_metamethods(L, is_view);
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
	luaL_checkstack(L, 1 + COPIED_COUNT, NULL);
	lua_pushnil(L); /* in the place of an original */
	for (size_t i = 0; i < COPIED_COUNT; i++)
		lua_pushstring(L, copied[i]);
	lua_pushcclosure(L, l_setmetatable, 1 + COPIED_COUNT);
	lua_setfield(L, idx, "setmetatable");
}
