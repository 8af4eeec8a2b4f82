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
 * A real metatable also knows whose it is: the environment of the file that has called
 * setmetatable. getmetatable gives another file a view: `getmetatable(x).__index` leads
 * to the class of x, which is often shared by all files. For the same reason rawset goes
 * past
 * __newindex in the tables of its own file alone.
 *
 * A metamethod that the script's metatable gains later counts too: such a table has a
 * metatable of ours, which sees new keys. Only a value that replaces another one is not
 * seen.
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
static const char owner_key; /* in a real one: the environment */
static const char guard_key; /* registry: the guard; in that: true */

static const struct {
	const char *name, *instead;
} refused[] = {
	{ "__gc", "" },
	{ "__close", "; call a function where the block ends" },
	{ "__concat", "; write a method, or __add" },
};

/* A script wants this metamethod, whose value is on the top. */
static void check_metamethod(lua_State *L, const char *name)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (strcmp(name, refused[i].name) == 0 && !lua_isnil(L, -1))
			luaL_error(L, "a script's metatable cannot have %s%s",
				   refused[i].name, refused[i].instead);
	if (strcmp(name, "__mode") == 0 && lua_type(L, -1) == LUA_TSTRING &&
	    strchr(lua_tostring(L, -1), 'k'))
		luaL_error(L,
			   "a script's metatable cannot have __mode '%s'; it may have "
			   "'v'",
			   lua_tostring(L, -1));
}

/* The script's metatable is at `theirs`. */
static void check_metatable(lua_State *L, int theirs)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		lua_pushstring(L, refused[i].name);
		lua_rawget(L, theirs);
		check_metamethod(L, refused[i].name);
		lua_pop(L, 1);
	}
	lua_pushliteral(L, "__mode");
	lua_rawget(L, theirs);
	check_metamethod(L, "__mode");
	lua_pop(L, 1);
}

static bool is_copied(const char *name)
{
	for (size_t i = 0; i < COPIED_COUNT; i++)
		if (strcmp(name, copied[i]) == 0)
			return true;
	return false;
}

/* rawset of a table that is a metatable: what it gains, the real one gains. The stack is
 * table, key, value. */
static void set_late(lua_State *L)
{
	const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

	if (name[0] == '_' && name[1] == '_') {
		check_metamethod(L, name);
		lua_rawgetp(L, LUA_REGISTRYINDEX, &reals_key);
		lua_pushvalue(L, 1);
		if (lua_rawget(L, -2) == LUA_TTABLE && is_copied(name)) {
			lua_pushvalue(L, 2);
			lua_pushvalue(L, 3);
			lua_rawset(L, -3);
		}
		lua_settop(L, 3);
	}
	lua_rawset(L, 1);
}

static int l_late(lua_State *L)
{
	script_check(L);
	lua_settop(L, 3);
	set_late(L);
	return 0;
}

/* The metatable on the top is the one that push_guard pushes. */
static bool is_guard(lua_State *L)
{
	bool is = lua_rawgetp(L, -1, &guard_key) != LUA_TNIL;

	lua_pop(L, 1);
	return is;
}

/* What a script's metatable has as its own metatable unless it has another one. Scripts
 * do not see it. */
static void make_guard(lua_State *L)
{
	lua_createtable(L, 0, 3);
	lua_pushcfunction(L, l_late);
	lua_setfield(L, -2, "__newindex");
	lua_pushboolean(L, 1);
	lua_rawsetp(L, -2, &real_key);
	lua_pushboolean(L, 1);
	lua_rawsetp(L, -2, &guard_key);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &guard_key);
}

/* The first upvalue of the functions that are bound: the environment of their file. */
#define OWNER 1

/* Push the real metatable of the script's one, made anew when there is none. */
static void push_real(lua_State *L, int theirs)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &reals_key);
	lua_pushvalue(L, theirs);
	if (lua_rawget(L, -2) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_newtable(L);
		lua_pushvalue(L, lua_upvalueindex(OWNER));
		lua_rawsetp(L, -2, &owner_key);
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
		if (!is_view && !lua_getmetatable(L, 2)) {
			lua_rawgetp(L, LUA_REGISTRYINDEX, &guard_key);
			lua_setmetatable(L, 2);
		}
		lua_settop(L, 4);
	}
	lua_setmetatable(L, 1);
	lua_settop(L, 1);
	return 1;
}

/* The metatable on the top is of the file that asks. */
static bool is_own(lua_State *L)
{
	lua_rawgetp(L, -1, &owner_key);
	bool is = lua_rawequal(L, -1, lua_upvalueindex(OWNER));
	lua_pop(L, 1);
	return is;
}

/* getmetatable (object) */
static int l_getmetatable(lua_State *L)
{
	script_check(L);
	luaL_checkany(L, 1);
	if (!lua_getmetatable(L, 1) || is_guard(L)) {
		lua_pushnil(L);
		return 1;
	}
	bool is_foreign = lua_istable(L, 1) && !is_own(L);
	lua_pushliteral(L, "__metatable");
	if (lua_rawget(L, -2) == LUA_TNIL)
		lua_pop(L, 1);
	if (is_foreign)
		read_only_show(L);
	return 1;
}

/* rawset (table, key, value) -> table */
static int l_rawset(lua_State *L)
{
	script_check(L);
	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_checkany(L, 2);
	luaL_checkany(L, 3);
	lua_settop(L, 3);
	if (safe_lib_call_stand_in(L, "rawset"))
		return lua_gettop(L);
	if (lua_getmetatable(L, 1)) {
		lua_pushliteral(L, "__newindex");
		bool is_plain = lua_rawget(L, -2) == LUA_TNIL;
		lua_pop(L, 1);
		if (!is_plain && !is_guard(L) && !is_own(L))
			return luaL_error(L, "this table is read-only");
		lua_pop(L, 1);
	}
	set_late(L);
	return 1;
}

void safe_meta_bind(lua_State *L, int idx)
{
	int env = lua_absindex(L, idx);

	luaL_checkstack(L, 3 + COPIED_COUNT, NULL);
	lua_pushvalue(L, env);
	lua_pushcclosure(L, l_getmetatable, 1);
	lua_setfield(L, env, "getmetatable");
	lua_pushvalue(L, env);
	lua_pushcclosure(L, l_rawset, 1);
	lua_setfield(L, env, "rawset");
	lua_getfield(L, env, "setmetatable");
	int original = lua_gettop(L), count = 1;
	lua_pushvalue(L, env);
	while (lua_getupvalue(L, original, count + 1))
		count++;
	lua_pushcclosure(L, l_setmetatable, count);
	lua_setfield(L, env, "setmetatable");
	lua_settop(L, original - 1);
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
	make_guard(L);
	luaL_checkstack(L, 1 + COPIED_COUNT, NULL);
	lua_pushnil(L); /* of no file */
	for (size_t i = 0; i < COPIED_COUNT; i++)
		lua_pushstring(L, copied[i]);
	lua_pushcclosure(L, l_setmetatable, 1 + COPIED_COUNT);
	lua_setfield(L, idx, "setmetatable");
}
