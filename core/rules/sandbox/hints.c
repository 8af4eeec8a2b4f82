#include "hints.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "read_only.h"
#include "script.h"

#define NEAR_NAME_MAX 32
#define LISTED_MAX 64

/* What other Luas have and scripts do not, and what to use. */
static const struct {
	const char *name, *instead;
} absent[] = {
	{ "collectgarbage", "the broker collects memory between calls" },
	{ "coroutine",
	  "use a table of the script, which lives as long as its generation" },
	{ "debug", "`tidemq rules show` has the stack of the last error" },
	{ "dofile", "use require" },
	{ "io", "use tide.log to write to the broker's log" },
	{ "json", "use tide.json" },
	{ "cjson", "use tide.json" },
	{ "loadfile", "use require" },
	{ "loadstring", "use load" },
	{ "log", "use tide.log" },
	{ "math.mod", "write x % y" },
	{ "math.pow", "write x ^ y" },
	{ "math.random", "use tide.random" },
	{ "math.randomseed", "tide.random needs no seed" },
	{ "module", "return a table, and require the file" },
	{ "msg", "it is the first argument of the function that decides" },
	{ "os", "use tide.now() for the time, tide.time for dates" },
	{ "package.loaded", "require gives what is loaded" },
	{ "package.path", "require finds modules in the rules directory" },
	{ "string.dump", "pass the function itself" },
	{ "string.gfind", "use string.gmatch" },
	{ "table.getn", "write #t" },
	{ "unpack", "use table.unpack" },
};

/* Registry: the guarded tables by their names. */
static const char guarded_key;

const char *hints_absent(size_t number)
{
	return number < sizeof(absent) / sizeof(absent[0]) ? absent[number].name : NULL;
}

const char *hints_instead(const char *owner, const char *name)
{
	char full[2 * NEAR_NAME_MAX];

	snprintf(full, sizeof(full), "%s%s%s", owner, owner[0] ? "." : "", name);
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		if (strcmp(absent[i].name, full) == 0)
			return absent[i].instead;
	return NULL;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* How many letters are to be changed, left out, added or swapped with their neighbour. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][NEAR_NAME_MAX + 1];
	size_t b_len = strlen(b);

	for (size_t j = 0; j <= b_len; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; a[i - 1]; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i - 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_len; j++) {
			unsigned other = tolower((unsigned char)a[i - 1]) !=
					 tolower((unsigned char)b[j - 1]);

			row[j] = least(least(above[j], row[j - 1]) + 1,
				       above[j - 1] + other);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
		}
	}
	return rows[strlen(a) % 3][b_len];
}

const char *hints_nearest(lua_State *L, int idx, const char *name)
{
	size_t len = strlen(name);
	unsigned best = len < 3 ? 0 : len < 6 ? 1 : 2;
	const char *nearest = NULL;

	if (len > NEAR_NAME_MAX)
		return NULL;
	luaL_checkstack(L, 4, NULL);
	lua_pushvalue(L, idx);
	read_only_see_through(L, -1);
	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
		const char *key;
		unsigned away;

		script_check(L);
		if (lua_type(L, -2) != LUA_TSTRING || lua_rawlen(L, -2) > NEAR_NAME_MAX)
			continue;
		key = lua_tostring(L, -2);
		away = distance(name, key);
		/* Of those that are as near, the first by name: the order of a table is
		 * another one each time. */
		if (away < best ||
		    (away == best && (!nearest || strcmp(key, nearest) < 0))) {
			best = away;
			nearest = key;
		}
	}
	lua_pop(L, 1);
	return nearest;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Push the names in the table at `idx`, sorted. */
static void push_names(lua_State *L, int idx)
{
	const char *names[LISTED_MAX];
	size_t count = 0;
	luaL_Buffer list;

	for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 1))
		if (lua_type(L, -2) == LUA_TSTRING && count < LISTED_MAX)
			names[count++] = lua_tostring(L, -2);
	qsort(names, count, sizeof(names[0]), by_name);
	luaL_buffinit(L, &list);
	for (size_t i = 0; i < count; i++) {
		luaL_addstring(&list, i ? " " : "");
		luaL_addstring(&list, names[i]);
	}
	luaL_pushresult(&list);
}

/* Upvalue: the name of the table. */
static int l_explain(lua_State *L)
{
	struct script_state *s = script_state_of(L);

	s->missing_owner = lua_tostring(L, lua_upvalueindex(1));
	s->missing[0] = '\0';
	if (lua_type(L, 2) == LUA_TSTRING)
		snprintf(s->missing, sizeof(s->missing), "%s", lua_tostring(L, 2));
	return 0;
}

/* Upvalues: the name of the table, the table. */
static int l_refuse(lua_State *L)
{
	const char *owner = lua_tostring(L, lua_upvalueindex(1));
	const char *name, *nearest;

	if (lua_type(L, 2) != LUA_TSTRING)
		return luaL_error(L, "the names in '%s' are texts; this is a %s", owner,
				  luaL_typename(L, 2));
	name = lua_tostring(L, 2);
	nearest = hints_nearest(L, lua_upvalueindex(2), name);
	if (nearest)
		return luaL_error(L, "there is no '%s.%s'; did you mean %s.%s?", owner,
				  name, owner, nearest);
	push_names(L, lua_upvalueindex(2));
	return luaL_error(L, "there is no '%s.%s'; it has %s", owner, name,
			  lua_tostring(L, -1));
}

void hints_guard(lua_State *L, const char *name, enum hints_guard how)
{
	lua_pushvalue(L, -1);
	read_only_see_through(L, -1);
	if (lua_getmetatable(L, -1)) {
		lua_pop(L, 2);
		return;
	}
	lua_createtable(L, 0, 2);
	lua_pushstring(L, name);
	lua_pushvalue(L, -3);
	lua_pushcclosure(L, how == HINTS_REFUSE ? l_refuse : l_explain, 2);
	lua_setfield(L, -2, "__index");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_setmetatable(L, -2);
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &guarded_key) == LUA_TNIL) {
		lua_newtable(L);
		lua_copy(L, -1, -2);
		lua_rawsetp(L, LUA_REGISTRYINDEX, &guarded_key);
	}
	lua_insert(L, -2);
	lua_setfield(L, -2, name);
	lua_pop(L, 1);
}

/* What Lua's error is about: "… (global 'os')". */
struct variable {
	char kind[12]; /* "global", "local", "field", "method", "upvalue" */
	char name[NEAR_NAME_MAX + 1];
};

static bool read_variable(const char *text, struct variable *out)
{
	const char *begin = strrchr(text, '(');

	return strstr(text, "attempt to ") && begin &&
	       sscanf(begin, "(%11[a-z] '%32[^']')", out->kind, out->name) == 2;
}

/* Push the globals of the function in which the error is. */
static bool push_globals(lua_State *L)
{
	lua_Debug where;

	for (int level = 0; lua_getstack(L, level, &where); level++) {
		const char *name;

		lua_getinfo(L, "lf", &where);
		for (int i = 1;
		     where.currentline > 0 && (name = lua_getupvalue(L, -1, i)) != NULL;
		     i++) {
			lua_remove(L, strcmp(name, "_ENV") == 0 ? -2 : -1);
			if (strcmp(name, "_ENV") == 0)
				return lua_istable(L, -1);
		}
		lua_pop(L, 1);
		if (where.currentline > 0)
			return false;
	}
	return false;
}

/* Push the hint about a global, or nothing. */
static bool push_near_global(lua_State *L, const char *name)
{
	int top = lua_gettop(L);
	const char *nearest;

	if (!push_globals(L)) {
		lua_settop(L, top);
		return false;
	}
	lua_pushliteral(L, "tide");
	lua_rawget(L, -2);
	lua_pushstring(L, name);
	if (lua_istable(L, -2) && lua_rawget(L, -2) != LUA_TNIL) {
		lua_pushfstring(L, "; did you mean tide.%s?", name);
		return true;
	}
	nearest = hints_nearest(L, top + 1, name);
	if (nearest)
		lua_pushfstring(L, "; did you mean %s?", nearest);
	return nearest != NULL;
}

/* Push the hint about a field of a library, or nothing. */
static bool push_near_field(lua_State *L, const char *owner, const char *name)
{
	const char *nearest = NULL;

	lua_rawgetp(L, LUA_REGISTRYINDEX, &guarded_key);
	if (lua_getfield(L, -1, owner) == LUA_TTABLE)
		nearest = hints_nearest(L, -1, name);
	if (nearest)
		lua_pushfstring(L, "; there is no '%s.%s'; did you mean %s.%s?", owner,
				name, owner, nearest);
	return nearest != NULL;
}

static bool push_hint(lua_State *L, const struct variable *v)
{
	const struct script_state *s = script_state_of(L);
	bool is_field = strcmp(v->kind, "field") == 0 || strcmp(v->kind, "method") == 0;
	bool is_global = strcmp(v->kind, "global") == 0;
	const char *owner = "", *instead;

	if (is_field) {
		if (!s->missing_owner || strcmp(s->missing, v->name) != 0)
			return false;
		owner = s->missing_owner;
	}
	instead = hints_instead(owner, v->name);
	if (!instead && is_field) /* of a library that is empty */
		instead = hints_instead("", owner);
	if (instead) {
		lua_pushfstring(L, "; scripts have no '%s%s%s': %s", owner,
				owner[0] ? "." : "", v->name, instead);
		return true;
	}
	if (is_field)
		return push_near_field(L, owner, v->name);
	return is_global && push_near_global(L, v->name);
}

void hints_add(lua_State *L)
{
	int text = lua_gettop(L);
	struct variable v;

	if (!read_variable(lua_tostring(L, text), &v))
		return;
	luaL_checkstack(L, 16, NULL);
	if (push_hint(L, &v)) {
		lua_pushvalue(L, text);
		lua_insert(L, -2);
		lua_concat(L, 2);
		lua_replace(L, text);
	}
	lua_settop(L, text);
}

void hints_push_module(lua_State *L, const char *name)
{
	static const char *const of_tide[] = { "cjson", "dkjson", "json", "rapidjson" };
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(of_tide) / sizeof(of_tide[0]); i++)
		if (strcmp(name, of_tide[i]) == 0) {
			lua_pushliteral(L, "; use tide.json, which needs no require");
			return;
		}
	if (len > 4 && strcmp(name + len - 4, ".lua") == 0)
		lua_pushliteral(L, "; write it without '.lua'");
	else if (strchr(name, '/'))
		lua_pushliteral(L, "; write dots between folders: require \"a.b\"");
	else if (strncmp(name, "rules.", 6) == 0)
		lua_pushfstring(L, "; names begin in the rules directory: require \"%s\"",
				name + 6);
	else if (strcmp(name, "tide") == 0 || strncmp(name, "tide.", 5) == 0)
		lua_pushliteral(L, "; what `tide` has needs no require");
	else if (strchr(name, '-'))
		lua_pushliteral(L, "; is it '_' instead of '-'?");
	else
		lua_pushliteral(L, "");
}
