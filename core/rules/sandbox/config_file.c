#include "config_file.h"

#include <lauxlib.h>
#include <string.h>

#include "base/args.h"
#include "base/mem.h"
#include "sandbox.h"
#include "script.h"
#include "source.h"

#define CONFIG_BUDGET_MS 1000
#define CONFIG_MEMORY_BYTES ((size_t)16 << 20)
#define CONFIG_VALUES_MAX 256

struct config_value {
	char *name;
	char *text;
};

struct config_reading {
	struct source *source;
	const char *path;
	struct sandbox sandbox;
	struct config_value values[CONFIG_VALUES_MAX];
	size_t count;
};

static void add_value(lua_State *L, struct config_reading *r, const char *name, int idx)
{
	const char *text;

	if (r->count == CONFIG_VALUES_MAX)
		luaL_error(L, "a configuration has at most %d values", CONFIG_VALUES_MAX);
	switch (lua_type(L, idx)) {
	case LUA_TBOOLEAN:
		text = lua_toboolean(L, idx) ? "1" : "0";
		break;
	case LUA_TNUMBER:
	case LUA_TSTRING:
		lua_pushvalue(L, idx);
		text = lua_tostring(L, -1);
		break;
	default:
		luaL_error(L,
			   "'%s' is a %s: wanted is a text, a number or a boolean, or a "
			   "list of such",
			   name, luaL_typename(L, idx));
		return;
	}
	/* Nothing raises from here on. */
	r->values[r->count].name = mem_strdup(name);
	r->values[r->count++].text = mem_strdup(text);
}

static void add_field(lua_State *L, struct config_reading *r)
{
	const char *name;

	if (lua_type(L, -2) != LUA_TSTRING)
		luaL_error(L, "the keys of a configuration are the names of options");
	name = lua_tostring(L, -2);
	if (!lua_istable(L, -1)) {
		add_value(L, r, name, lua_gettop(L));
		return;
	}
	for (lua_Integer i = 1; i <= luaL_len(L, -1); i++) {
		int list = lua_gettop(L);

		lua_rawgeti(L, list, i);
		add_value(L, r, name, list + 1);
		lua_settop(L, list);
	}
}

static int body(lua_State *L)
{
	struct config_reading *r = lua_touserdata(L, 1);

	watchdog_adopt(script_state_of(L)->watchdog, L);
	sandbox_open(L, &r->sandbox);
	sandbox_load_take(L, r->source, r->path);
	lua_call(L, 0, 1);
	if (!lua_istable(L, -1))
		return luaL_error(
			L, "a configuration returns a table; this file returned %s",
			luaL_typename(L, -1));
	lua_pushnil(L);
	while (lua_next(L, 2)) {
		add_field(L, r);
		lua_settop(L, 3);
	}
	return 0;
}

static int run(struct config_reading *r, struct error *err)
{
	struct script_call call = { .file = r->path, .body = body, .ctx = r };
	struct script_state state;
	struct watchdog *watchdog;
	int rc = watchdog_create(&watchdog, CONFIG_BUDGET_MS);

	if (rc < 0)
		return error_set(err, rc, "cannot start the watchdog: %s",
				 error_text(rc));
	rc = script_state_init(&state, watchdog, CONFIG_MEMORY_BYTES);
	if (rc == TIDE_OK) {
		rc = script_enter(&state, &call, err);
		script_state_deinit(&state);
	} else {
		error_set(err, rc, "there is no memory for a Lua state");
	}
	watchdog_destroy(watchdog);
	return rc;
}

static void sort_by_name(struct config_reading *r)
{
	/* Insertion keeps the order of a list's elements. */
	for (size_t i = 1; i < r->count; i++) {
		struct config_value v = r->values[i];
		size_t at = i;

		for (; at > 0 && strcmp(r->values[at - 1].name, v.name) > 0; at--)
			r->values[at] = r->values[at - 1];
		r->values[at] = v;
	}
}

int config_file_read(const char *path, config_value_fn on_value, void *ctx,
		     struct error *err)
{
	struct source source = { 0 };
	struct config_reading *r;
	int rc = source_read(&source, path, path, err);

	if (rc < 0)
		return rc;
	r = mem_zalloc(sizeof(*r));
	r->source = &source;
	r->path = path;
	r->sandbox = (struct sandbox){ .rules_dir = "", .lua_dir = "" };
	rc = run(r, err);
	sort_by_name(r);
	for (size_t i = 0; i < r->count; i++) {
		if (rc == TIDE_OK)
			rc = on_value(ctx, r->values[i].name, r->values[i].text, err);
		mem_free(r->values[i].name);
		mem_free(r->values[i].text);
	}
	source_free(&source);
	mem_free(r);
	return rc;
}
