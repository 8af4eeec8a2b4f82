#include "rule.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "rules/sandbox/bundle.h"
#include "rules/sandbox/field.h"

/* The functions of each kind, NULL for one that it does not have. */
static const struct {
	const char *names[RULE_FUNCTION_COUNT];
	bool needs_new;
} shapes[SCRIPT_KIND_COUNT] = {
	[SCRIPT_ROUTING] = { { "route", "new", "bind", "unbind" }, true },
	[SCRIPT_SHARDING] = { { "pick", "new", [RULE_CARRY] = "carry" }, false },
	[SCRIPT_PRIORITY] = { { "rank", "new", [RULE_CARRY] = "carry" }, false },
	[SCRIPT_RETRY] = { { "decide", "new", [RULE_CARRY] = "carry" }, false },
	[SCRIPT_FILTER] = { { "publish" }, false },
	[SCRIPT_SCHEDULE] = { { "run" }, false },
	[SCRIPT_AUTH] = { { "authorize", [RULE_AUTHENTICATE] = "authenticate" }, false },
	[SCRIPT_DELIVER] = { { "deliver" }, false },
	[SCRIPT_SETTLED] = { { "settled" }, false },
	[SCRIPT_DECLARE] = { { "declare" }, false },
	[SCRIPT_CONNECT] = { { "connect" }, false },
};

/* What else there may be in a script's table, and in which kinds. */
#define ALL_KINDS ((1u << SCRIPT_KIND_COUNT) - 1)
#define STRATEGIES                                                              \
	(1u << SCRIPT_ROUTING | 1u << SCRIPT_SHARDING | 1u << SCRIPT_PRIORITY | \
	 1u << SCRIPT_RETRY)
static const struct {
	const char *name;
	unsigned kinds;
} attributes[] = {
	{ "doc", ALL_KINDS },
	{ "pure", STRATEGIES },
	{ "options", STRATEGIES },
	{ "binding_options", 1u << SCRIPT_ROUTING },
	{ "match",
	  ALL_KINDS & ~(STRATEGIES | 1u << SCRIPT_SCHEDULE | 1u << SCRIPT_AUTH) },
};
#define ATTRIBUTE_COUNT (sizeof(attributes) / sizeof(attributes[0]))

const char *rule_decide_name(enum script_kind kind)
{
	return shapes[kind].names[RULE_DECIDE];
}

bool rule_is_active(const struct rule *r)
{
	return r->match || (r->schedule && r->schedule->is_active) ||
	       r->kind == SCRIPT_AUTH;
}

void rule_destroy(struct rule *r)
{
	if (!r)
		return;
	options_deinit(&r->options);
	options_deinit(&r->binding_options);
	schedule_spec_free(r->schedule);
	mem_free(r->name);
	mem_free(r->file);
	mem_free(r->doc);
	rule_match_free(r->match);
	mem_free(r);
}

/* From here to rule_load everything runs inside the door: it may raise. */

struct rule_loading {
	struct rule *rule;
	struct source *source;
};

/* The last line of the chunk on the top. What is wrong with the table that it
 * returns is told there: the table has no line of its own. */
static int last_line(lua_State *L)
{
	lua_Debug chunk;
	int last = 1;

	lua_pushvalue(L, -1);
	lua_getinfo(L, ">L", &chunk);
	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
		if (lua_tointeger(L, -2) > last)
			last = (int)lua_tointeger(L, -2);
	}
	lua_pop(L, 1);
	return last;
}

/* Refuse keys that mean nothing: most likely a misspelt one. */
static void check_keys(lua_State *L, enum script_kind kind)
{
	const char
		*names[RULE_FUNCTION_COUNT + ATTRIBUTE_COUNT + SCHEDULE_SPEC_FIELDS + 1];
	char owner[32];
	size_t count = 0;

	for (size_t i = 0; i < RULE_FUNCTION_COUNT; i++) {
		if (shapes[kind].names[i])
			names[count++] = shapes[kind].names[i];
	}
	for (size_t i = 0; i < ATTRIBUTE_COUNT; i++) {
		if (attributes[i].kinds >> kind & 1)
			names[count++] = attributes[i].name;
	}
	for (size_t i = 0; kind == SCRIPT_SCHEDULE && i < SCHEDULE_SPEC_FIELDS; i++)
		names[count++] = schedule_spec_fields[i];
	names[count] = NULL;
	snprintf(owner, sizeof(owner), "%s %s script", kind == SCRIPT_AUTH ? "an" : "a",
		 script_kind_name(kind));
	field_check_names(L, -1, owner, names);
}

static void take_function(lua_State *L, struct rule *r, enum rule_function f)
{
	const char *name = shapes[r->kind].names[f];

	r->functions[f] = LUA_NOREF;
	if (!name)
		return;
	bool is_optional = f == RULE_CARRY || r->kind == SCRIPT_AUTH ||
			   (f == RULE_NEW && !shapes[r->kind].needs_new);
	int type = lua_getfield(L, -1, name);
	if (type == LUA_TNIL && is_optional) {
		lua_pop(L, 1);
		return;
	}
	if (type != LUA_TFUNCTION)
		luaL_error(L, "%s %s script needs a function '%s'; here it is %s",
			   r->kind == SCRIPT_AUTH ? "an" : "a", script_kind_name(r->kind),
			   name, type == LUA_TNIL ? "missing" : luaL_typename(L, -1));
	r->functions[f] = luaL_ref(L, LUA_REGISTRYINDEX);
}

static void check_carry(lua_State *L, const struct rule *r)
{
	if (r->functions[RULE_CARRY] != LUA_NOREF && r->functions[RULE_NEW] == LUA_NOREF)
		luaL_error(
			L,
			"'carry' replaces the state of 'new'; this script has no 'new'");
}

static void check_auth(lua_State *L, const struct rule *r)
{
	if (r->functions[RULE_DECIDE] == LUA_NOREF &&
	    r->functions[RULE_AUTHENTICATE] == LUA_NOREF)
		luaL_error(L, "an auth script needs a function 'authenticate' or "
			      "'authorize', or both");
}

/* Where a function begins; 1 for one that is missing. */
static int line_of(lua_State *L, const struct rule *r, enum rule_function f)
{
	lua_Debug function;

	if (r->functions[f] == LUA_NOREF)
		return 1;
	lua_rawgeti(L, LUA_REGISTRYINDEX, r->functions[f]);
	lua_getinfo(L, ">S", &function);
	return function.linedefined > 0 ? function.linedefined : 1;
}

static void take_pure(lua_State *L, struct rule *r)
{
	if (lua_getfield(L, -1, "pure") == LUA_TFUNCTION) {
		r->pure = RULE_PURE_BY_OPTIONS;
		r->pure_function = luaL_ref(L, LUA_REGISTRYINDEX);
		return;
	}
	if (!lua_isnil(L, -1) && !lua_isboolean(L, -1))
		luaL_error(L, "'pure' must be true, false or a function, not a %s",
			   luaL_typename(L, -1));
	r->pure = lua_toboolean(L, -1) ? RULE_PURE : RULE_NOT_PURE;
	lua_pop(L, 1);
}

static void take_doc(lua_State *L, struct rule *r)
{
	if (lua_getfield(L, -1, "doc") != LUA_TNIL)
		r->doc = options_take_doc(L, NULL);
	lua_pop(L, 1);
}

static int l_load(lua_State *L)
{
	struct rule_loading *l = lua_touserdata(L, 1);
	struct rule *r = l->rule;

	script_set_place(script_state_of(L), r->file, 1);
	sandbox_load_take(L, l->source, r->file);
	script_set_place(script_state_of(L), r->file, last_line(L));
	script_state_of(L)->is_loading = true;
	lua_call(L, 0, 1);
	if (!lua_istable(L, -1))
		return luaL_error(L,
				  "a script must return a table; this file returned %s",
				  luaL_typename(L, -1));
	check_keys(L, r->kind);
	for (int f = 0; f < RULE_FUNCTION_COUNT; f++)
		take_function(L, r, (enum rule_function)f);
	check_carry(L, r);
	if (r->kind == SCRIPT_AUTH)
		check_auth(L, r);
	r->decide_line = line_of(L, r, RULE_DECIDE);
	r->authenticate_line = line_of(L, r, RULE_AUTHENTICATE);
	take_pure(L, r);
	take_doc(L, r);
	if (script_kind_has_match(r->kind))
		rule_match_read(L, r->kind, &r->match);
	lua_getfield(L, -1, "options");
	options_declare(L, &r->options);
	lua_getfield(L, -2, "binding_options");
	options_declare(L, &r->binding_options);
	if (r->kind == SCRIPT_SCHEDULE) {
		lua_pop(L, 2);
		r->schedule = mem_zalloc(sizeof(*r->schedule));
		schedule_spec_read(L, r->schedule);
	}
	return 0;
}

int rule_load(struct script_state *s, struct sandbox *sandbox, enum script_kind kind,
	      const char *name, const char *path, struct rule **out, struct error *err)
{
	struct source source;
	char file[SCRIPT_PLACE_MAX];

	snprintf(file, sizeof(file), "%s/%s.lua", script_kind_name(kind), name);
	int rc = sandbox_read(sandbox, path, file, &source, err);
	if (rc != TIDE_OK)
		return rc;
	struct rule *r = mem_zalloc(sizeof(*r));
	r->kind = kind;
	r->name = mem_strdup(name);
	r->file = mem_strdup(file);
	r->hash = source.hash;
	r->own = (struct use){ .rule = r, .options = LUA_NOREF, .state = LUA_NOREF };
	options_init(&r->options);
	options_init(&r->binding_options);
	struct rule_loading loading = { r, &source };
	struct script_call call = { .file = r->file, .body = l_load, .ctx = &loading };
	rc = script_enter(s, &call, err);
	s->is_loading = false;
	source_free(&source);
	if (rc == TIDE_OK)
		*out = r;
	else
		rule_destroy(r);
	return rc;
}
