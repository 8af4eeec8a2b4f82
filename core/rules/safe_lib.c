#include "safe_lib.h"

#include <lauxlib.h>
#include <stdbool.h>

#include <stdlib.h>

#include "pattern.h"
#include "script.h"

/* Each function here has the original as its first upvalue. A hook interrupts
 * instructions alone: where C calls C (a comparison, a metamethod that is a library
 * function), this check is what ends a call that has overrun. */
static int call_original(lua_State *L)
{
	watchdog_check(script_state_of(L)->watchdog, L);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
	return lua_gettop(L);
}

/* The hook of an overrun raises at each instruction anyway; this check spares a
 * script that catches it the instructions in between. */
static int l_pcall(lua_State *L)
{
	int results = call_original(L);
	watchdog_check(script_state_of(L)->watchdog, L);
	return results;
}

/* The message handler of a script's xpcall, which is the upvalue. Lua handles the
 * error that a hook raised while the hook still counts as running, and runs no
 * hook inside a hook: a script's handler could not be interrupted there. */
static int l_handle(lua_State *L)
{
	if (watchdog_has_fired(script_state_of(L)->watchdog))
		return 1;
	return call_original(L);
}

static int l_xpcall(lua_State *L)
{
	luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_pushvalue(L, 2);
	lua_pushcclosure(L, l_handle, 1);
	lua_replace(L, 2);
	return l_pcall(L);
}

static int l_setmetatable(lua_State *L)
{
	if (lua_istable(L, 2)) {
		lua_pushliteral(L, "__gc");
		if (lua_rawget(L, 2) != LUA_TNIL)
			return luaL_error(L, "a rule's metatable has no __gc");
		lua_pop(L, 1);
	}
	return call_original(L);
}

static int l_rep(lua_State *L)
{
	size_t len, separator_len = 0;
	luaL_checklstring(L, 1, &len);
	lua_Integer n = luaL_checkinteger(L, 2);
	luaL_optlstring(L, 3, "", &separator_len);
	if (n > 0 && len + separator_len > SAFE_STRING_MAX / (lua_Unsigned)n)
		return luaL_error(L, "string.rep: the result is over %d bytes",
				  SAFE_STRING_MAX);
	return call_original(L);
}

/* pack (format, ...): "c1000000000" fills byte by byte. */
static int l_pack(lua_State *L)
{
	const char *format = luaL_checkstring(L, 1);
	unsigned long long sum = 0;
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
	return call_original(L);
}

static void check_elements(lua_State *L, lua_Integer from, lua_Integer to)
{
	bool is_over =
		to > from && (lua_Unsigned)to - (lua_Unsigned)from >= SAFE_TABLE_MAX;
	if (is_over)
		luaL_error(L, "more than %d elements at once", SAFE_TABLE_MAX);
}

/* insert, remove, sort: the length counts, which may be a __len's. */
static int l_table_whole(lua_State *L)
{
	check_elements(L, 0, luaL_len(L, 1));
	return call_original(L);
}

/* concat (list, separator, from, to) */
static int l_concat(lua_State *L)
{
	lua_Integer from = luaL_optinteger(L, 3, 1);
	lua_Integer to = lua_isnoneornil(L, 4) ? luaL_len(L, 1) : luaL_checkinteger(L, 4);
	check_elements(L, from, to);
	return call_original(L);
}

/* unpack (list, from, to) */
static int l_unpack(lua_State *L)
{
	lua_Integer from = luaL_optinteger(L, 2, 1);
	lua_Integer to = lua_isnoneornil(L, 3) ? luaL_len(L, 1) : luaL_checkinteger(L, 3);
	check_elements(L, from, to);
	return call_original(L);
}

/* move (list, from, to, at) */
static int l_move(lua_State *L)
{
	check_elements(L, luaL_checkinteger(L, 2), luaL_checkinteger(L, 3));
	return call_original(L);
}

/* The order of table.sort without one: as a function of ours, so that a sort
 * which overruns (of long strings, say) is interrupted. */
static int l_less(lua_State *L)
{
	watchdog_check(script_state_of(L)->watchdog, L);
	lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
	return 1;
}

/* An order that is a C function, for the same reason; it is the upvalue. */
static int l_compare(lua_State *L)
{
	call_original(L);
	lua_settop(L, 1);
	return 1;
}

static int l_sort(lua_State *L)
{
	lua_settop(L, 2);
	check_elements(L, 0, luaL_len(L, 1));
	if (lua_isnil(L, 2)) {
		lua_pushcfunction(L, l_less);
		lua_replace(L, 2);
	} else if (lua_iscfunction(L, 2)) {
		lua_pushcclosure(L, l_compare, 1);
	}
	return call_original(L);
}

static void wrap(lua_State *L, int idx, const char *name, lua_CFunction function)
{
	idx = lua_absindex(L, idx);
	lua_getfield(L, idx, name);
	lua_pushcclosure(L, function, 1);
	lua_setfield(L, idx, name);
}

void safe_lib_install(lua_State *L, int idx)
{
	wrap(L, idx, "pcall", l_pcall);
	wrap(L, idx, "xpcall", l_xpcall);
	wrap(L, idx, "setmetatable", l_setmetatable);
	lua_getfield(L, idx, "string");
	wrap(L, -1, "rep", l_rep);
	wrap(L, -1, "pack", l_pack);
	pattern_install(L, -1);
	lua_pop(L, 1);
	lua_getfield(L, idx, "table");
	wrap(L, -1, "insert", l_table_whole);
	wrap(L, -1, "remove", l_table_whole);
	wrap(L, -1, "concat", l_concat);
	wrap(L, -1, "move", l_move);
	wrap(L, -1, "unpack", l_unpack);
	wrap(L, -1, "sort", l_sort);
	lua_pop(L, 1);
}
