#include "decision_context.h"

#include <lauxlib.h>
#include <string.h>

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

/* The script has an empty table with these metamethods, which the functions that look
 * past metamethods (next, rawget, rawlen, rawset) know too: see safe_lib_stand_in.
 * Their upvalues: the real table, and the changes by key, where this light userdata
 * stands for nil. Tables inside are replaced alike when they are read. */
static const char removed;

enum { REAL = 1, CHANGES = 2 };

static void push_shadow(lua_State *L);

/* Replace the key on the top by its value, which `get` reads from the real table. */
static void look_up(lua_State *L, int get(lua_State *, int))
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
	if (get(L, lua_upvalueindex(REAL)) == LUA_TTABLE) {
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
	look_up(L, lua_gettable);
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
	look_up(L, lua_gettable);
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

/* rawget (table, key) */
static int l_rawget(lua_State *L)
{
	luaL_checkany(L, 2);
	lua_settop(L, 2);
	look_up(L, lua_rawget);
	return 1;
}

/* rawset (table, key, value) -> table */
static int l_rawset(lua_State *L)
{
	luaL_checkany(L, 3);
	l_newindex(L);
	lua_settop(L, 1);
	return 1;
}

static bool is_removed(lua_State *L, int key)
{
	lua_pushvalue(L, key);
	lua_rawget(L, lua_upvalueindex(CHANGES));
	bool is = lua_touserdata(L, -1) == &removed;
	lua_pop(L, 1);
	return is;
}

/* Has the table behind the upvalue the key on the top? */
static bool has_key(lua_State *L, int table)
{
	lua_pushvalue(L, -1);
	bool has = lua_rawget(L, lua_upvalueindex(table)) != LUA_TNIL;
	lua_pop(L, 1);
	return has;
}

/* Replace the key on the top by the next one that is still there; false: by nothing. A
 * key of both tables counts as one of the real one. */
static bool next_key(lua_State *L)
{
	int from = lua_isnil(L, -1) || has_key(L, REAL) ? REAL : CHANGES;

	for (; from <= CHANGES; from++, lua_pushnil(L)) {
		while (lua_next(L, lua_upvalueindex(from)) != 0) {
			lua_pop(L, 1);
			script_check(L);
			bool is_seen = from == CHANGES && has_key(L, REAL);
			if (!is_seen && !is_removed(L, -1))
				return true;
		}
	}
	lua_pop(L, 1);
	return false;
}

/* next (table, key). The real table's keys first, then the new ones. */
static int l_next(lua_State *L)
{
	lua_settop(L, 2);
	if (!next_key(L)) {
		lua_pushnil(L);
		return 1;
	}
	lua_pushvalue(L, -1);
	look_up(L, lua_rawget);
	return 2;
}

/* Replace the table on the top. */
static void push_shadow(lua_State *L)
{
	static const luaL_Reg metamethods[] = {
		{ "__index", l_index },
		{ "__newindex", l_newindex },
		{ "__len", l_len },
		{ "next", l_next }, /* these four are for safe_lib_stand_in */
		{ "rawget", l_rawget },
		{ "rawlen", l_len },
		{ "rawset", l_rawset },
		{ NULL, NULL },
	};

	luaL_checkstack(L, 8, NULL);
	int real = lua_gettop(L);
	lua_newtable(L);
	lua_createtable(L, 0, 8);
	lua_pushvalue(L, real);
	lua_newtable(L);
	luaL_setfuncs(L, metamethods, 2);
	lua_pushboolean(L, 1);
	lua_rawsetp(L, -2, &safe_lib_stand_in);
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_setmetatable(L, -2);
	lua_replace(L, real);
}

void dry_run_push_state(lua_State *L, int reference)
{
	if (reference < 0) {
		lua_pushnil(L);
		return;
	}
	int type = lua_rawgeti(L, LUA_REGISTRYINDEX, reference);
	if (type == LUA_TTABLE && decision_context_is_dry(L))
		push_shadow(L);
}

static bool has_line(const struct line_trace *t, int line)
{
	return (t->lines[line / 64] >> line % 64 & 1) != 0;
}

/* The watchdog's hook takes the place of this one when the call overruns. */
static void on_line(lua_State *L, lua_Debug *where)
{
	struct line_trace *t = decision_context_of(L)->trace;

	if (++t->steps > LINE_TRACE_STEPS_MAX) {
		t->line = 0;
		/* If the watchdog has set its hook just now, it will do so again. */
		lua_sethook(L, NULL, 0, 0);
		return;
	}
	lua_getinfo(L, "Sl", where);
	int line = where->currentline;
	/* The name of a chunk begins with '='. */
	if (line <= 0 || strcmp(where->source + 1, t->file) != 0)
		return;
	if (line < LINE_TRACE_LINES_MAX)
		t->lines[line / 64] |= UINT64_C(1) << line % 64;
	if (line != where->lastlinedefined || line == where->linedefined)
		t->line = line;
}

void line_trace_begin(struct line_trace *t, lua_State *L, const char *file)
{
	*t = (struct line_trace){ .file = file };
	lua_sethook(L, on_line, LUA_MASKLINE, 0);
}

void line_trace_end(lua_State *L)
{
	lua_sethook(L, NULL, 0, 0);
}

bool line_trace_next(const struct line_trace *t, int *line, int *last)
{
	while (*line < LINE_TRACE_LINES_MAX && !has_line(t, *line))
		++*line;
	*last = *line;
	while (*last + 1 < LINE_TRACE_LINES_MAX && has_line(t, *last + 1))
		++*last;
	return *line < LINE_TRACE_LINES_MAX;
}
