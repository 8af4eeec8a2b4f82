/* safe_table.c: the functions of `table`. What they work on may be no plain table:
 * each element that is read or written may be a metamethod, or a chain of two
 * thousand __index, so there is a look at the budgets before each. */

#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>

#include "safe_lib.h"
#include "script.h"

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

/* What stands at `from` in the list `a` to `to` in the list `b`. */
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
	return safe_lib_call_original(L);
}

void safe_table_install(lua_State *L, int idx)
{
	static const luaL_Reg functions[] = {
		{ "concat", l_concat }, { "insert", l_insert }, { "move", l_move },
		{ "remove", l_remove }, { "unpack", l_unpack }, { NULL, NULL },
	};

	safe_lib_wrap(L, idx, "sort", l_sort);
	lua_pushvalue(L, idx);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}
