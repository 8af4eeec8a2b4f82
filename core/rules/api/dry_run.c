#include <lauxlib.h>

#include "decision_context.h"
#include "rules/sandbox/safe_lib.h"

void dry_run_count(struct dry_run *run, const char *file, uint64_t time_ns)
{
	size_t i = 0;

	while (i < run->count && run->scripts[i].file != file)
		i++;
	if (i == DRY_RUN_SCRIPTS_MAX)
		return;
	if (i == run->count)
		run->scripts[run->count++] = (struct dry_run_script){ .file = file };
	run->scripts[i].calls++;
	run->scripts[i].time_ns += time_ns;
}

/* What the script has is an empty table with these metamethods. Their upvalues:
 * the real table, and the changes by key, where this light userdata stands for
 * nil. Tables inside are replaced alike when they are read. */
static const char removed;

enum { REAL = 1, CHANGES = 2 };

static void push_shadow(lua_State *L);

/* Replace the key on the top by its value. */
static void look_up(lua_State *L)
{
	lua_pushvalue(L, -1);
	if (lua_rawget(L, lua_upvalueindex(CHANGES)) != LUA_TNIL) {
		if (lua_touserdata(L, -1) == &removed) {
			lua_pop(L, 1);
			lua_pushnil(L);
		}
		lua_remove(L, -2);
		return;
	}
	lua_pop(L, 1);
	lua_pushvalue(L, -1);
	if (lua_gettable(L, lua_upvalueindex(REAL)) == LUA_TTABLE) {
		push_shadow(L);
		lua_pushvalue(L, -2);
		lua_pushvalue(L, -2);
		lua_rawset(L, lua_upvalueindex(CHANGES));
	}
	lua_remove(L, -2);
}

static int l_index(lua_State *L)
{
	lua_settop(L, 2);
	look_up(L);
	return 1;
}

static int l_newindex(lua_State *L)
{
	lua_settop(L, 3);
	if (lua_isnil(L, 3)) {
		lua_pushlightuserdata(L, (void *)&removed);
		lua_replace(L, 3);
	}
	lua_rawset(L, lua_upvalueindex(CHANGES));
	return 0;
}

static bool has_element(lua_State *L, lua_Integer n)
{
	lua_pushinteger(L, n);
	look_up(L);
	bool has = !lua_isnil(L, -1);
	lua_pop(L, 1);
	return has;
}

static int l_len(lua_State *L)
{
	lua_Integer n = luaL_len(L, lua_upvalueindex(REAL));

	while (n > 0 && !has_element(L, n))
		n--;
	while (has_element(L, n + 1))
		n++;
	lua_pushinteger(L, n);
	return 1;
}

/* All that there is, in a table of its own. */
static int l_pairs(lua_State *L)
{
	lua_settop(L, 0);
	lua_pushcfunction(L, safe_lib_next);
	lua_newtable(L);
	for (int from = REAL; from <= CHANGES; from++) {
		for (lua_pushnil(L); lua_next(L, lua_upvalueindex(from)) != 0;
		     lua_settop(L, 3)) {
			lua_pushvalue(L, 3);
			lua_pushvalue(L, 3);
			look_up(L);
			lua_rawset(L, 2);
		}
	}
	return 2;
}

/* Replace the table on the top. */
static void push_shadow(lua_State *L)
{
	static const luaL_Reg metamethods[] = {
		{ "__index", l_index }, { "__newindex", l_newindex },
		{ "__len", l_len },     { "__pairs", l_pairs },
		{ NULL, NULL },
	};

	luaL_checkstack(L, 8, NULL);
	int real = lua_gettop(L);
	lua_newtable(L);
	lua_createtable(L, 0, 5);
	lua_pushvalue(L, real);
	lua_newtable(L);
	luaL_setfuncs(L, metamethods, 2);
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_setmetatable(L, -2);
	lua_replace(L, real);
}

void dry_run_push_state(lua_State *L, int reference)
{
	int type = lua_rawgeti(L, LUA_REGISTRYINDEX, reference);

	if (type == LUA_TTABLE && decision_context_is_dry(L))
		push_shadow(L);
}
