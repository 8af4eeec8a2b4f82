#include "hints.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "read_only.h"
#include "script.h"

#define NAME_TEXT_MAX 32
#define LISTED_MAX 64
/* lua_getstack counts from the top each time. */
#define TRACEBACK_LEVELS_MAX 32

/* Names of other Luas that scripts lack, and what to use. */
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
	char full[2 * NAME_TEXT_MAX];

	snprintf(full, sizeof(full), "%s%s%s", owner, owner[0] ? "." : "", name);
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		if (strcmp(absent[i].name, full) == 0)
			return absent[i].instead;
	return NULL;
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

	if (lua_type(L, 2) != LUA_TSTRING)
		return luaL_error(L, "the names in '%s' are texts; this is a %s", owner,
				  luaL_typename(L, 2));
	push_names(L, lua_upvalueindex(2));
	return luaL_error(L, "there is no '%s.%s'; it has %s", owner, lua_tostring(L, 2),
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

/* The subject of Lua's error: "… (global 'os')". */
struct variable {
	char kind[12]; /* "global", "local", "field", "method", "upvalue" */
	char name[NAME_TEXT_MAX + 1];
};

static bool read_variable(const char *text, struct variable *out)
{
	const char *begin = strrchr(text, '(');

	return strstr(text, "attempt to ") && begin &&
	       sscanf(begin, "(%11[a-z] '%32[^']')", out->kind, out->name) == 2;
}

/* Push the hint about a global that `tide` has; false: it has none of the name. */
static bool push_of_tide(lua_State *L, const char *name)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &guarded_key);
	lua_getfield(L, -1, "tide");
	lua_pushstring(L, name);
	if (!lua_istable(L, -2) || lua_rawget(L, -2) == LUA_TNIL)
		return false;
	lua_pushfstring(L, "; did you mean tide.%s?", name);
	return true;
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
	return is_global && push_of_tide(L, v->name);
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

/* Describe the function of a level: its name, or its kind. */
static void describe_level(const struct script_state *s, const lua_Debug *f, char *out,
			   size_t max)
{
	if (*f->namewhat && !script_hides(s, slice_from(f->name)))
		snprintf(out, max, "%s '%.60s'",
			 strcmp(f->namewhat, "metamethod") == 0 ? "metamethod"
								: "function",
			 f->name);
	else if (*f->what == 'm')
		snprintf(out, max, "the file");
	else
		snprintf(out, max, "the function of line %d", f->linedefined);
}

void hints_write_traceback(lua_State *L, const struct script_state *s, char *out,
			   size_t max)
{
	char line[SCRIPT_PLACE_MAX + 96], what[80];
	size_t used = 0;
	lua_Debug f;

	out[0] = '\0';
	/* Level 0 is the handler. */
	for (int level = 1; level < TRACEBACK_LEVELS_MAX && lua_getstack(L, level, &f);
	     level++) {
		lua_getinfo(L, "Slnt", &f);
		if (f.currentline <= 0 && !*f.namewhat)
			continue; /* the door */
		describe_level(s, &f, what, sizeof(what));
		int len = f.currentline > 0
				  ? snprintf(line, sizeof(line), "%s:%d: in %s%s",
					     f.short_src, f.currentline, what,
					     f.istailcall ? ", called at an end" : "")
				  : snprintf(line, sizeof(line), "in %s of C", what);
		if (used + (size_t)len + 2 > max)
			return;
		used += (size_t)snprintf(out + used, max - used, "%s%s", used ? "\n" : "",
					 line);
	}
}

static void forget(struct slice *text)
{
	char *data = (char *)(uintptr_t)text->data;

	if (data)
		explicit_bzero(data, text->len);
	mem_free(data);
	*text = (struct slice){ 0 };
}

void hidden_deinit(struct hidden *h)
{
	for (size_t i = 0; i < h->count; i++)
		forget(&h->texts[i]);
	h->count = h->next = 0;
}

void hidden_add(struct hidden *h, struct slice text)
{
	if (text.len == 0)
		return;
	for (size_t i = 0; i < h->count; i++)
		if (slice_is_equal(h->texts[i], text))
			return;
	forget(&h->texts[h->next]);
	h->texts[h->next] = (struct slice){ mem_strndup(text.data, text.len), text.len };
	h->next = (h->next + 1) % HIDDEN_MAX;
	if (h->count < HIDDEN_MAX)
		h->count++;
}

static bool has(struct slice text, struct slice part)
{
	return text.len >= part.len && memmem(text.data, text.len, part.data, part.len);
}

bool hidden_is_shown(struct slice secret, struct slice text)
{
	struct slice part = { NULL, HIDDEN_PART_MAX };

	if (text.len > HIDDEN_LINE_MAX)
		text.len = HIDDEN_LINE_MAX;
	if (secret.len <= HIDDEN_PART_MAX)
		return secret.len > 0 && has(text, secret);
	for (size_t i = 0; i + HIDDEN_PART_MAX <= text.len; i++) {
		part.data = text.data + i;
		if (has(secret, part))
			return true;
	}
	return false;
}

bool hidden_is_in(const struct hidden *h, struct slice text)
{
	for (size_t i = 0; h && i < h->count; i++)
		if (hidden_is_shown(h->texts[i], text))
			return true;
	return false;
}
