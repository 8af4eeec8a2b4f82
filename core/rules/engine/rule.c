#include "rule.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "rules/api/api_tide.h"
#include "rules/sandbox/bundle.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"
#include "rules_dir.h"

/* The other members of a script's table. */
static const char *const attributes[] = { "doc",    "options", "pure", "binding_options",
					  "active", "match" };
#define ATTRIBUTE_COUNT (sizeof(attributes) / sizeof(attributes[0]))

static bool has_attribute(enum script_kind kind, size_t attribute)
{
	const struct script_row *row = &script_kind_rows[kind];
	const bool has[ATTRIBUTE_COUNT] = { true,
					    true,
					    row->is_strategy,
					    kind == SCRIPT_ROUTING,
					    row->has_active,
					    row->match != 0 };

	return has[attribute];
}

bool rule_is_active(const struct rule *r)
{
	return r->match || (r->schedule && r->schedule->is_active) ||
	       (script_kind_rows[r->kind].has_active && !r->is_idle);
}

bool rule_is_forgotten(const struct rule *r, struct rule *const *scripts, size_t count)
{
	if (!script_kind_has_match(r->kind) || r->match || r->is_shipped ||
	    r->options.count > 0)
		return false;
	for (size_t i = 0; i < count; i++)
		if (scripts[i]->model && strcmp(scripts[i]->model, r->file) == 0)
			return false;
	return true;
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
	mem_free(r->model);
	args_deinit(&r->values);
	rule_match_free(r->match);
	mem_free(r);
}

/* From here to rule_load everything runs inside the door: it may raise. */

struct rule_loading {
	struct rule *rule;
	struct source *source;
	struct sandbox *sandbox;
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
		if (script_kind_rows[kind].functions[i].name)
			names[count++] = script_kind_rows[kind].functions[i].name;
	}
	for (size_t i = 0; i < ATTRIBUTE_COUNT; i++) {
		if (has_attribute(kind, i))
			names[count++] = attributes[i];
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
	const struct script_function *row = &script_kind_rows[r->kind].functions[f];
	const char *name = row->name;

	r->functions[f] = LUA_NOREF;
	if (!name)
		return;
	int type = lua_getfield(L, -1, name);
	if (type == LUA_TNIL && row->is_optional) {
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

static bool is_among(const char *name, const char *const *names)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names;
}

/* Refuse a setting that is none but an option of the model. The settings are on the top,
 * and the model's table below them. */
static void check_misplaced(lua_State *L, const char *model, const char *const *names)
{
	int settings = lua_gettop(L) + 1, options = settings + 1;

	lua_pushvalue(L, -1);
	read_only_see_through(L, settings);
	if (lua_getfield(L, settings - 2, "options") == LUA_TTABLE) {
		for (lua_pushnil(L); lua_next(L, settings) != 0; lua_pop(L, 1)) {
			const char *name = lua_type(L, -2) == LUA_TSTRING
						   ? lua_tostring(L, -2)
						   : NULL;

			if (name && !is_among(name, names) &&
			    lua_getfield(L, options, name) != LUA_TNIL)
				luaL_error(L,
					   "'%s' is an option of %s: write options = { "
					   "%s = … }",
					   name, model, name);
			lua_settop(L, options + 2);
		}
	}
	lua_settop(L, settings - 1);
}

/* Check the settings of an instance: they are on the top, the model's table below
 * them. Besides them the attributes of its model may stand there. */
static void check_settings(lua_State *L, const struct rule *r)
{
	enum script_kind kind = r->kind;
	const char *names[SCHEDULE_SPEC_FIELDS + 5] = { "doc", "options" };
	char owner[48];
	size_t count = 2;

	if (script_kind_has_match(kind))
		names[count++] = "match";
	if (script_kind_rows[kind].has_active)
		names[count++] = "active";
	for (size_t i = 0; kind == SCRIPT_SCHEDULE && i < SCHEDULE_SPEC_FIELDS; i++)
		names[count++] = schedule_spec_fields[i];
	names[count] = NULL;
	check_misplaced(L, r->model, names);
	snprintf(owner, sizeof(owner), "tide.use in %s/", script_kind_name(kind));
	field_check_names(L, -1, owner, names);
}

/* "filter/shed.lua"; of a shipped script "shipped/filter/shed.lua". */
static void name_file(const struct rule_place *place, char out[SCRIPT_PLACE_MAX])
{
	snprintf(out, SCRIPT_PLACE_MAX, "%s%s/%s.lua",
		 place->is_shipped ? SANDBOX_SHIPPED : "", script_kind_name(place->kind),
		 place->name);
}

static int read_place(struct sandbox *sandbox, const struct rule_place *place,
		      struct source *out, struct error *err)
{
	struct rule_place path = *place;
	char name[SCRIPT_PLACE_MAX];

	path.is_shipped = false;
	name_file(&path, name);
	return place->is_shipped ? sandbox_read_shipped(sandbox, name, out, err)
				 : sandbox_read(sandbox, name, out, err);
}

/* ", shed" and so on. */
static void list_shipped(const struct sandbox *sandbox, enum script_kind kind, char *out,
			 size_t size)
{
	struct rules_dir_list list = { 0 };
	struct error err;
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s/" SANDBOX_SHIPPED_DIR, sandbox->lua_dir);
	if (rules_dir_list(&list, dir, kind, &err) != TIDE_OK)
		list.count = 0;
	for (size_t i = 0; i < list.count; i++) {
		size_t len = strlen(out);
		int name_len = (int)strcspn(list.names[i], ".");

		snprintf(out + len, size - len, "%s %.*s", i > 0 ? "," : "", name_len,
			 list.names[i]);
	}
	rules_dir_list_free(&list);
}

static int no_such_model(lua_State *L, const struct rule_loading *l, const char *name)
{
	const char *kind = script_kind_name(l->rule->kind);
	char shipped[256] = "";

	list_shipped(l->sandbox, l->rule->kind, shipped, sizeof(shipped));
	return luaL_error(L, "tide.use: there is no %s/%s.lua; shipped are%s", kind, name,
			  shipped);
}

/* Run the model's file; leave what it returns. Its last line. A file that uses its own
 * name uses the shipped script which it hides. */
static int run_model(lua_State *L, struct rule_loading *l, const char *name)
{
	struct rule *r = l->rule;
	struct rule_place place = { r->kind, name, strcmp(name, r->name) == 0 };
	struct source source;
	struct error err;
	char file[SCRIPT_PLACE_MAX];
	int line, rc = read_place(l->sandbox, &place, &source, &err);

	if (rc == TIDE_ENOTFOUND && !place.is_shipped) {
		place.is_shipped = true;
		rc = read_place(l->sandbox, &place, &source, &err);
	}
	name_file(&place, file);
	if (rc == TIDE_ENOTFOUND)
		no_such_model(L, l, name);
	if (rc != TIDE_OK)
		luaL_error(L, "%s", err.text);
	r->model = mem_strdup(file);
	r->hash = r->hash * UINT64_C(0x100000001b3) ^ source.hash;
	script_state_of(L)->model = r->model;
	sandbox_load_take(L, &source, r->model);
	line = last_line(L);
	script_set_place(script_state_of(L), r->model, line);
	lua_call(L, 0, 1);
	if (api_use_at_top(L)) {
		script_set_place(script_state_of(L), r->file, r->line);
		luaL_error(L,
			   "tide.use: %s is itself an instance of another script; use "
			   "that one",
			   file);
	}
	return line;
}

/* Copy the fields of the table on the top, with or without `options`, into the table at
 * `to`. */
static void copy_fields(lua_State *L, int to, bool with_options)
{
	read_only_see_through(L, lua_gettop(L));
	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
		if (!with_options && lua_type(L, -2) == LUA_TSTRING &&
		    strcmp(lua_tostring(L, -2), "options") == 0)
			continue;
		lua_pushvalue(L, -2);
		lua_pushvalue(L, -2);
		lua_rawset(L, to);
	}
}

static void set_nil(lua_State *L, int table, const char *name)
{
	lua_pushnil(L);
	lua_setfield(L, table, name);
}

/* The settings at `settings` over the model's table on the top, in a table of their own,
 * which takes its place. */
static void merge(lua_State *L, const struct rule *r, int settings)
{
	int merged;

	lua_newtable(L);
	lua_insert(L, -2);
	merged = lua_gettop(L) - 1;
	copy_fields(L, merged, true);
	lua_settop(L, merged);
	/* A model is not active; what uses it is. */
	if (r->kind == SCRIPT_SCHEDULE || script_kind_rows[r->kind].has_active)
		set_nil(L, merged, "active");
	if (lua_getfield(L, settings, "every") != LUA_TNIL)
		set_nil(L, merged, "cron");
	if (lua_getfield(L, settings, "cron") != LUA_TNIL)
		set_nil(L, merged, "every");
	lua_settop(L, merged);
	lua_pushvalue(L, settings);
	copy_fields(L, merged, false);
	lua_settop(L, merged);
}

/* The result of the file on the top is tide.use(…): the table of the model with the
 * settings takes its place. */
static void load_model(lua_State *L, struct rule_loading *l, const struct api_use *use)
{
	struct rule *r = l->rule;
	int settings = lua_gettop(L) + 1, line;

	r->line = use->line;
	script_set_place(script_state_of(L), r->file, r->line);
	if (script_kind_rows[r->kind].is_strategy)
		luaL_error(L,
			   "a %s script cannot use another: its options are given where "
			   "it is declared",
			   script_kind_name(r->kind));
	api_use_push_settings(L);
	lua_getfield(L, settings, "options");
	options_take_values(L, &r->values);
	lua_pop(L, 1);
	line = run_model(L, l, use->name);
	if (!lua_istable(L, -1))
		return;
	check_keys(L, r->kind);
	script_set_place(script_state_of(L), r->file, r->line);
	lua_pushvalue(L, settings);
	check_settings(L, r);
	lua_pop(L, 1);
	script_set_place(script_state_of(L), r->model, line);
	merge(L, r, settings);
}

static void take_active(lua_State *L, struct rule *r)
{
	if (script_kind_rows[r->kind].has_active)
		r->is_idle = !field_boolean(L, lua_gettop(L), "active", true);
}

/* The fields that an instance may have set. What is wrong with them is its own fault. */
static void take_settings(lua_State *L, struct rule *r)
{
	int table = lua_gettop(L);

	if (r->model)
		script_set_place(script_state_of(L), r->file, r->line);
	take_active(L, r);
	lua_settop(L, table);
	if (script_kind_has_match(r->kind))
		rule_match_read(L, r->kind, &r->match);
	if (script_kind_has_match(r->kind) && r->model && !r->match)
		luaL_error(L,
			   "tide.use in %s/ needs 'match': write match = {} for "
			   "everything",
			   script_kind_name(r->kind));
	if (r->kind == SCRIPT_SCHEDULE) {
		r->schedule = mem_zalloc(sizeof(*r->schedule));
		schedule_spec_read(L, r->schedule);
	}
}

static void take_functions(lua_State *L, struct rule *r)
{
	for (int f = 0; f < RULE_FUNCTION_COUNT; f++)
		take_function(L, r, (enum rule_function)f);
	check_carry(L, r);
	if (r->kind == SCRIPT_AUTH)
		check_auth(L, r);
	for (int f = 0; f < RULE_FUNCTION_COUNT; f++)
		r->lines[f] = line_of(L, r, (enum rule_function)f);
	if (!r->model)
		r->line = r->lines[RULE_DECIDE];
}

static int l_load(lua_State *L)
{
	struct rule_loading *l = lua_touserdata(L, 1);
	struct rule *r = l->rule;
	const struct api_use *use;

	script_set_place(script_state_of(L), r->file, 1);
	sandbox_load_take(L, l->source, r->file);
	script_set_place(script_state_of(L), r->file, last_line(L));
	script_state_of(L)->is_loading = true;
	lua_call(L, 0, 1);
	use = api_use_at_top(L);
	if (use)
		load_model(L, l, use);
	if (!lua_istable(L, -1))
		return luaL_error(L,
				  "a script must return a table; this file returned %s",
				  luaL_typename(L, -1));
	check_keys(L, r->kind);
	take_functions(L, r);
	take_pure(L, r);
	take_doc(L, r);
	lua_getfield(L, -1, "options");
	options_declare(L, &r->options);
	lua_getfield(L, -2, "binding_options");
	options_declare(L, &r->binding_options);
	lua_pop(L, 2);
	take_settings(L, r);
	return 0;
}

/* The options and the state of the file itself: new (opts, name) -> state */
static int l_own(lua_State *L)
{
	struct rule *r = ((const struct rule_loading *)lua_touserdata(L, 1))->rule;

	script_set_place(script_state_of(L), rule_code_file(r), r->lines[RULE_DECIDE]);
	script_state_of(L)->is_loading = true;
	options_push(L, &r->options, &r->values);
	lua_pushvalue(L, -1);
	r->own.options = luaL_ref(L, LUA_REGISTRYINDEX);
	if (r->functions[RULE_NEW] == LUA_NOREF)
		return 0;
	lua_rawgeti(L, LUA_REGISTRYINDEX, r->functions[RULE_NEW]);
	lua_insert(L, -2);
	lua_pushstring(L, r->name);
	lua_call(L, 2, 1);
	r->own.state = luaL_ref(L, LUA_REGISTRYINDEX);
	r->own.must_carry = r->functions[RULE_CARRY] != LUA_NOREF;
	return 0;
}

/* A model whose options have no values yet is not run, and needs none. */
static int check_values(const struct rule *r, bool *is_complete, struct error *err)
{
	struct error why;

	*is_complete = options_check(&r->options, &r->values, rule_code_file(r), &why) ==
		       TIDE_OK;
	if (*is_complete || (!r->model && !rule_is_active(r)))
		return TIDE_OK;
	return error_set(err, TIDE_ERULE, "%s:%d: %s", r->file, r->line, why.text);
}

static int load(struct script_state *s, struct rule_loading *l, struct error *err)
{
	struct rule *r = l->rule;
	struct script_call call = { .file = r->file, .body = l_load, .ctx = l };
	int rc = script_enter(s, &call, err);
	bool is_complete;

	if (rc != TIDE_OK || script_kind_rows[r->kind].is_strategy)
		return rc;
	rc = check_values(r, &is_complete, err);
	/* A schedule may be run by hand. */
	if (rc != TIDE_OK || !is_complete || !(rule_is_active(r) || r->schedule))
		return rc;
	call.model = r->model;
	call.body = l_own;
	return script_enter(s, &call, err);
}

int rule_load(struct script_state *s, struct sandbox *sandbox,
	      const struct rule_place *place, struct rule **out, struct error *err)
{
	struct source source;
	char file[SCRIPT_PLACE_MAX];
	int rc = read_place(sandbox, place, &source, err);

	if (rc != TIDE_OK)
		return rc;
	name_file(place, file);
	struct rule *r = mem_zalloc(sizeof(*r));
	r->kind = place->kind;
	r->name = mem_strdup(place->name);
	r->file = mem_strdup(file);
	r->is_shipped = place->is_shipped;
	r->hash = source.hash;
	r->own = (struct use){ .rule = r, .options = LUA_NOREF, .state = LUA_NOREF };
	options_init(&r->options);
	options_init(&r->binding_options);
	struct rule_loading loading = { r, &source, sandbox };
	rc = load(s, &loading, err);
	s->is_loading = false;
	source_free(&source);
	if (rc == TIDE_OK)
		*out = r;
	else
		rule_destroy(r);
	return rc;
}
