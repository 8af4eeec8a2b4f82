#include "safe_lib.h"

#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "read_only.h"
#include "script.h"

const char safe_lib_stand_in = 0;

/* Is argument 1 a table that stands in for another? Then its function `name` is called
 * with the arguments, and its results are left. */
static bool call_stand_in(lua_State *L, const char *name)
{
	if (!lua_istable(L, 1) || !lua_getmetatable(L, 1))
		return false;
	if (lua_rawgetp(L, -1, &safe_lib_stand_in) == LUA_TNIL) {
		lua_pop(L, 2);
		return false;
	}
	lua_pop(L, 1);
	lua_getfield(L, -1, name);
	lua_replace(L, -2);
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
	return true;
}

/* Call the original, which is the first upvalue, with the same arguments. */
static int call_original(lua_State *L)
{
	return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Replace the function `name` by `function`, with the original as its upvalue. */
static void wrap_function(lua_State *L, int idx, const char *name, lua_CFunction function)
{
	idx = lua_absindex(L, idx);
	lua_getfield(L, idx, name);
	lua_pushcclosure(L, function, 1);
	lua_setfield(L, idx, name);
}

/* The functions of `table`. What they work on may be no plain table:
 * each element that is read or written may be a metamethod, or a chain of two
 * thousand __index, so there is a look at the budgets before each. */

static void check_elements(lua_State *L, lua_Integer from, lua_Integer to)
{
	bool is_over =
		to > from && (lua_Unsigned)to - (lua_Unsigned)from >= SAFE_TABLE_MAX;

	if (is_over)
		luaL_error(L, "more than %d elements at once", SAFE_TABLE_MAX);
}

/* A table, or what has metamethods instead. */
static void check_list(lua_State *L, int arg)
{
	if (lua_type(L, arg) != LUA_TUSERDATA)
		luaL_checktype(L, arg, LUA_TTABLE);
}

static lua_Integer length(lua_State *L, int arg)
{
	script_check(L);
	check_list(L, arg);
	return luaL_len(L, arg);
}

/* Copy the element at `from` of the list `a` to `to` in the list `b`. */
static void copy_element(lua_State *L, int a, lua_Integer from, int b, lua_Integer to)
{
	script_check(L);
	lua_geti(L, a, from);
	lua_seti(L, b, to);
}

/* insert (list, [position,] value) */
static int l_insert(lua_State *L)
{
	lua_Integer end = (lua_Integer)((lua_Unsigned)length(L, 1) + 1);
	lua_Integer at = end;
	int arguments = lua_gettop(L);

	if (arguments < 2 || arguments > 3)
		return luaL_error(L, "wrong number of arguments to 'insert'");
	if (arguments == 3) {
		at = luaL_checkinteger(L, 2);
		luaL_argcheck(L, (lua_Unsigned)at - 1 < (lua_Unsigned)end, 2,
			      "position out of bounds");
		check_elements(L, at, end);
	}
	for (lua_Integer i = end; i > at; i--)
		copy_element(L, 1, i - 1, 1, i);
	script_check(L);
	lua_seti(L, 1, at);
	return 0;
}

/* remove (list [, position]) -> what was there */
static int l_remove(lua_State *L)
{
	lua_Integer end = length(L, 1);
	lua_Integer at = luaL_optinteger(L, 2, end);

	if (at != end)
		luaL_argcheck(L, (lua_Unsigned)at - 1 <= (lua_Unsigned)end, 2,
			      "position out of bounds");
	check_elements(L, at, end);
	lua_geti(L, 1, at);
	for (; at < end; at++)
		copy_element(L, 1, at + 1, 1, at);
	script_check(L);
	lua_pushnil(L);
	lua_seti(L, 1, at);
	return 1;
}

/* move (list, from, to, at [, into]) */
static int l_move(lua_State *L)
{
	lua_Integer from = luaL_checkinteger(L, 2);
	lua_Integer to = luaL_checkinteger(L, 3);
	lua_Integer at = luaL_checkinteger(L, 4);
	int into = lua_isnoneornil(L, 5) ? 1 : 5;

	check_list(L, 1);
	check_list(L, into);
	check_elements(L, from, to);
	lua_Integer last = to < from ? 0 : to - from; /* few: no overflow */
	luaL_argcheck(L, at <= LUA_MAXINTEGER - last, 4, "the elements do not fit there");
	/* Upwards where the end of the one would be overwritten. */
	bool is_apart = at > to || at <= from ||
			(into != 1 && !lua_compare(L, 1, into, LUA_OPEQ));
	for (lua_Integer i = 0; to >= from && i <= last; i++) {
		lua_Integer offset = is_apart ? i : last - i;
		copy_element(L, 1, from + offset, into, at + offset);
	}
	lua_pushvalue(L, into);
	return 1;
}

/* The range of arguments `arg` and the next, all when they are not given. */
static void read_range(lua_State *L, int arg, lua_Integer *from, lua_Integer *to)
{
	script_check(L);
	*from = luaL_optinteger(L, arg, 1);
	*to = lua_isnoneornil(L, arg + 1) ? luaL_len(L, 1)
					  : luaL_checkinteger(L, arg + 1);
	check_elements(L, *from, *to);
}

/* concat (list, separator, from, to) */
static int l_concat(lua_State *L)
{
	luaL_Buffer out;
	size_t len, separator_len, sum = 0;
	lua_Integer from, to;

	check_list(L, 1);
	const char *separator = luaL_optlstring(L, 2, "", &separator_len);
	read_range(L, 3, &from, &to);
	luaL_buffinit(L, &out);
	for (lua_Integer i = from; i <= to; i++) {
		script_check(L);
		lua_geti(L, 1, i);
		if (!lua_isstring(L, -1))
			luaL_error(
				L,
				"invalid value (at index %I) in table for 'concat': a %s",
				i, luaL_typename(L, -1));
		lua_tolstring(L, -1, &len);
		sum += len + separator_len;
		if (sum > SCRIPT_STRING_MAX)
			luaL_error(L, "table.concat: the result is over %d bytes",
				   (int)SCRIPT_STRING_MAX);
		luaL_addvalue(&out);
		if (i == to)
			break; /* the last there is, perhaps */
		luaL_addlstring(&out, separator, separator_len);
	}
	luaL_pushresult(&out);
	return 1;
}

/* unpack (list, from, to) */
static int l_unpack(lua_State *L)
{
	lua_Integer from, to;

	read_range(L, 2, &from, &to);
	if (from > to)
		return 0;
	int count = (int)(to - from) + 1;
	if (!lua_checkstack(L, count))
		return luaL_error(L, "too many results to unpack");
	for (int i = 0; i < count; i++) {
		script_check(L);
		lua_geti(L, 1, from + i);
	}
	return count;
}

/* The order of table.sort without one: as a function of ours, so that a sort
 * which overruns (of long strings, say) is interrupted. */
static int l_less(lua_State *L)
{
	script_check(L);
	lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
	return 1;
}

/* An order that is a C function, for the same reason; it is the upvalue. */
static int l_compare(lua_State *L)
{
	script_check(L);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, 1);
	return 1;
}

/* The library's, whose every second step is a comparison. */
static int l_sort(lua_State *L)
{
	lua_settop(L, 2);
	check_elements(L, 0, length(L, 1));
	if (lua_isnil(L, 2)) {
		lua_pushcfunction(L, l_less);
		lua_replace(L, 2);
	} else if (lua_iscfunction(L, 2)) {
		lua_pushcclosure(L, l_compare, 1);
	}
	return call_original(L);
}

static void install_table(lua_State *L, int idx)
{
	static const luaL_Reg functions[] = {
		{ "concat", l_concat }, { "insert", l_insert }, { "move", l_move },
		{ "remove", l_remove }, { "unpack", l_unpack }, { NULL, NULL },
	};

	wrap_function(L, idx, "sort", l_sort);
	lua_pushvalue(L, idx);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}

/* setmetatable, without what a script could end the process with.
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

/* The metatable of a script's metatable, unless it has another one. Scripts do not
 * see it. */
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
	/* The answer of getmetatable. */
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

/* May the table at 1 get another metatable? It has none, or one of ours for one of a
 * script's without __metatable. */
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
	if (call_stand_in(L, "rawset"))
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

void safe_lib_bind_meta(lua_State *L, int idx)
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

static void install_meta(lua_State *L, int idx)
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

static int l_checked(lua_State *L)
{
	script_check(L);
	return call_original(L);
}

/* The hook of an overrun raises at each instruction anyway; this check spares a
 * script that catches it the instructions in between. */
static int l_pcall(lua_State *L)
{
	script_check(L);
	int results = call_original(L);
	script_check(L);
	return results;
}

/* The message handler of a script's xpcall, which is the upvalue. Lua handles the
 * error that a hook raised while the hook still counts as running, and runs no
 * hook inside a hook: a script's handler could not be interrupted there. */
static int l_handle(lua_State *L)
{
	const struct script_state *s = script_state_of(L);

	if (s->fault[0] || watchdog_has_fired(s->watchdog))
		return 1;
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
	return lua_gettop(L);
}

static int l_xpcall(lua_State *L)
{
	luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_pushvalue(L, 2);
	lua_pushcclosure(L, l_handle, 1);
	lua_replace(L, 2);
	return l_pcall(L);
}

/* The table behind a view may be read. */
static int l_rawget(lua_State *L)
{
	script_check(L);
	if (lua_gettop(L) >= 2 && read_only_see_through(L, 1)) {
		lua_settop(L, 2);
		read_only_see_through(L, 2); /* a key of pairs */
		lua_rawget(L, 1);
		read_only_show(L);
		return 1;
	}
	return call_stand_in(L, "rawget") ? lua_gettop(L) : call_original(L);
}

static int l_rawlen(lua_State *L)
{
	script_check(L);
	read_only_see_through(L, 1);
	return call_stand_in(L, "rawlen") ? lua_gettop(L) : call_original(L);
}

/* The library's pairs() would return its own `next`, which checks no budget. */
int safe_lib_next(lua_State *L)
{
	script_check(L);
	if (call_stand_in(L, "next"))
		return lua_gettop(L);
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 2);
	bool is_view = read_only_see_through(L, 1);
	if (is_view)
		read_only_see_through(L, 2);
	if (!lua_next(L, 1)) {
		lua_pushnil(L);
		return 1;
	}
	for (int i = 0; is_view && i < 2; i++) {
		lua_insert(L, -2);
		read_only_show(L); /* the key, then the value */
	}
	return 2;
}

static int l_pairs(lua_State *L)
{
	script_check(L);
	luaL_checkany(L, 1);
	if (luaL_getmetafield(L, 1, "__pairs") != LUA_TNIL) {
		lua_pushvalue(L, 1);
		lua_call(L, 1, 3);
		return 3;
	}
	lua_pushcfunction(L, safe_lib_next);
	lua_pushvalue(L, 1);
	lua_pushnil(L);
	return 3;
}

/* table -> a copy of what `pairs` finds in it */
static int l_unfold(lua_State *L)
{
	enum { TABLE = 1, COPY, NEXT, OF, KEY };

	lua_settop(L, TABLE);
	lua_newtable(L);
	lua_pushcfunction(L, l_pairs);
	lua_pushvalue(L, TABLE);
	lua_call(L, 1, 3);
	for (;;) {
		lua_pushvalue(L, NEXT);
		lua_pushvalue(L, OF);
		lua_pushvalue(L, KEY);
		lua_call(L, 2, 2);
		if (lua_isnil(L, -2))
			break;
		lua_pushvalue(L, -2);
		lua_replace(L, KEY);
		lua_rawset(L, COPY);
	}
	lua_settop(L, COPY);
	return 1;
}

void safe_lib_unfold(lua_State *L, int idx)
{
	idx = lua_absindex(L, idx);
	if (read_only_see_through(L, idx) || !lua_getmetatable(L, idx))
		return;
	bool is_stand_in = lua_rawgetp(L, -1, &safe_lib_stand_in) != LUA_TNIL;
	lua_pop(L, 2);
	if (!is_stand_in)
		return;
	lua_pushcfunction(L, l_unfold);
	lua_pushvalue(L, idx);
	lua_call(L, 1, 1);
	lua_replace(L, idx);
}

static int l_rep(lua_State *L)
{
	size_t len, separator_len = 0;

	script_check(L);
	luaL_checklstring(L, 1, &len);
	lua_Integer n = luaL_checkinteger(L, 2);
	luaL_optlstring(L, 3, "", &separator_len);
	if (n > 0 && len + separator_len > SAFE_STRING_MAX / (lua_Unsigned)n)
		return luaL_error(L, "string.rep: the result is over %d bytes",
				  SAFE_STRING_MAX);
	return call_original(L);
}

/* The bytes of all arguments that are texts: a text of digits is read for each
 * argument that is to be a number, however often it is given. */
static size_t text_bytes(lua_State *L)
{
	size_t sum = 0;

	for (int i = lua_gettop(L); i > 0; i--)
		sum += lua_type(L, i) == LUA_TSTRING ? lua_rawlen(L, i) : 0;
	return sum;
}

/* pack (format, ...): "c1000000000" fills byte by byte. */
static int l_pack(lua_State *L)
{
	unsigned long long sum = 0;

	script_check(L);
	const char *format = luaL_checkstring(L, 1);
	for (char *end; *format; format++) {
		if (*format < '0' || *format > '9')
			continue;
		unsigned long long n = strtoull(format, &end, 10);
		sum = n > SAFE_STRING_MAX ? n : sum + n;
		if (sum > SAFE_STRING_MAX)
			return luaL_error(L, "string.pack: the result is over %d bytes",
					  SAFE_STRING_MAX);
		format = end - 1;
	}
	if (text_bytes(L) > SCRIPT_STRING_MAX)
		return luaL_error(L, "string.pack: the texts are over %d bytes",
				  (int)SCRIPT_STRING_MAX);
	return call_original(L);
}

/* max, min, char: any number of numbers, each of which may be given as a text. */
static int l_of_numbers(lua_State *L)
{
	script_check(L);
	for (int i = lua_gettop(L); i > 0; i--) {
		if (lua_type(L, i) != LUA_TSTRING)
			continue;
		script_check(L);
		size_t size = lua_stringtonumber(L, lua_tostring(L, i));
		if (size > 0 && size == lua_rawlen(L, i) + 1) {
			lua_replace(L, i);
			continue;
		}
		lua_pop(L, size > 0); /* up to a zero byte, it is a number */
		luaL_argerror(L, i, "number expected, got string");
	}
	return call_original(L);
}

/* Of what luaL_tolstring would show the address. */
static bool has_address(lua_State *L, int idx)
{
	int type = lua_type(L, idx);

	return type != LUA_TNONE && type != LUA_TNIL && type != LUA_TBOOLEAN &&
	       type != LUA_TNUMBER && type != LUA_TSTRING;
}

const char *safe_lib_tolstring(lua_State *L, int idx, size_t *len)
{
	idx = lua_absindex(L, idx);
	if (!has_address(L, idx))
		return luaL_tolstring(L, idx, len);
	if (luaL_getmetafield(L, idx, "__tostring") != LUA_TNIL) {
		lua_pop(L, 1);
		return luaL_tolstring(L, idx, len);
	}
	int type = luaL_getmetafield(L, idx, "__name");
	if (type != LUA_TNIL && type != LUA_TSTRING)
		lua_pop(L, 1);
	if (type != LUA_TSTRING)
		lua_pushstring(L, luaL_typename(L, idx));
	return lua_tolstring(L, -1, len);
}

static int l_tostring(lua_State *L)
{
	script_check(L);
	luaL_checkany(L, 1);
	safe_lib_tolstring(L, 1, NULL);
	return 1;
}

/* Few arguments, short, without metamethods or addresses; for them the library's own
 * errors tell the argument's number. */
#define FORMAT_ARGUMENTS 32
#define FORMAT_BYTES 65536
static bool is_simple_format(lua_State *L)
{
	int top = lua_gettop(L);

	for (int i = 2; i <= top && i <= FORMAT_ARGUMENTS; i++) {
		if (has_address(L, i))
			return false;
	}
	size_t len = 0;
	const char *format =
		lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &len) : "";
	return top <= FORMAT_ARGUMENTS && text_bytes(L) <= FORMAT_BYTES &&
	       !memchr(format, 'p', len);
}

/* Push what the conversion at `at` makes of argument `arg`; gives its length. */
static size_t push_conversion(lua_State *L, const char *at, const char *end, int arg,
			      int arguments)
{
	size_t len = 1 + strspn(at + 1, "-+#0 .123456789");

	len += at + len < end;
	if (arg > arguments)
		luaL_argerror(L, arg, "no value");
	if (at[len - 1] == 'q' && lua_type(L, arg) == LUA_TSTRING &&
	    lua_rawlen(L, arg) > SAFE_STRING_MAX)
		luaL_error(L, "string.format: '%%q' of over %d bytes", SAFE_STRING_MAX);
	if (at[len - 1] == 'p')
		luaL_error(L, "string.format: no '%%p': a script sees no addresses");
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_pushlstring(L, at, len);
	if (at[len - 1] == 's')
		safe_lib_tolstring(L, arg, NULL);
	else
		lua_pushvalue(L, arg);
	lua_call(L, 2, 1);
	return len;
}

/* Formats one conversion at a time, and checks the budgets between them. */
static int l_format(lua_State *L)
{
	luaL_Buffer out;
	size_t len;
	int arg = 1;

	script_check(L);
	if (is_simple_format(L))
		return call_original(L);
	const char *at = luaL_checklstring(L, 1, &len), *end = at + len, *percent;
	int arguments = lua_gettop(L);
	luaL_buffinit(L, &out);
	for (; (percent = memchr(at, '%', (size_t)(end - at))); at = percent + len) {
		script_check(L);
		luaL_addlstring(&out, at, (size_t)(percent - at));
		len = 2;
		if (percent + 1 < end && percent[1] == '%') {
			luaL_addchar(&out, '%');
		} else {
			len = push_conversion(L, percent, end, ++arg, arguments);
			luaL_addvalue(&out);
		}
	}
	luaL_addlstring(&out, at, (size_t)(end - at));
	luaL_pushresult(&out);
	return 1;
}

/* Every function in the table at `idx`. One with upvalues would not find them. */
static void wrap_all(lua_State *L, int idx)
{
	idx = lua_absindex(L, idx);
	for (lua_pushnil(L); lua_next(L, idx) != 0; lua_settop(L, idx + 1)) {
		if (!lua_iscfunction(L, -1) || lua_getupvalue(L, -1, 1))
			continue;
		lua_pushcclosure(L, l_checked, 1);
		lua_pushvalue(L, -2);
		lua_insert(L, -2);
		lua_rawset(L, idx); /* an existing key: the traversal goes on */
	}
}

void safe_lib_install(lua_State *L, int idx)
{
	static const struct {
		const char *library, *name;
		lua_CFunction function;
	} replaced[] = {
		{ "_G", "pcall", l_pcall },       { "_G", "xpcall", l_xpcall },
		{ "_G", "next", safe_lib_next },  { "_G", "pairs", l_pairs },
		{ "_G", "tostring", l_tostring }, { "_G", "rawget", l_rawget },
		{ "_G", "rawlen", l_rawlen },     { "string", "rep", l_rep },
		{ "string", "pack", l_pack },     { "string", "char", l_of_numbers },
		{ "string", "format", l_format }, { "math", "max", l_of_numbers },
		{ "math", "min", l_of_numbers },  { "utf8", "char", l_of_numbers },
	};
	static const char *const libraries[] = { "_G", "string", "table", "math",
						 "utf8" };

	/* The special ones first, each with its original; then all that are left. */
	for (size_t i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++) {
		lua_getfield(L, idx, replaced[i].library);
		wrap_function(L, -1, replaced[i].name, replaced[i].function);
		lua_pop(L, 1);
	}
	install_meta(L, idx);
	lua_getfield(L, idx, "string");
	pattern_lib_install(L, -1);
	lua_getfield(L, idx, "table");
	install_table(L, -1);
	lua_pop(L, 2);
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		lua_getfield(L, idx, libraries[i]);
		wrap_all(L, -1);
		lua_pop(L, 1);
	}
}
