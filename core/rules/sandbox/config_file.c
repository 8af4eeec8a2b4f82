#include "config_file.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox.h"
#include "script.h"
#include "source.h"

#define CONFIG_BUDGET_MS 1000
#define CONFIG_MEMORY_BYTES ((size_t)16 << 20)
#define CONFIG_VALUES_MAX 256

struct config_reading {
	struct source *source;
	const char *path;
	struct sandbox sandbox;
	config_value_fn on_value;
	void *ctx;
	unsigned count;
	int rc;
	struct error *err;
};

/* The value on the top. */
static void pass_value(lua_State *L, struct config_reading *r, const char *name)
{
	int type = lua_type(L, -1);

	if (r->count++ == CONFIG_VALUES_MAX)
		luaL_error(L, "a configuration has at most %d values", CONFIG_VALUES_MAX);
	if (type == LUA_TBOOLEAN)
		lua_pushstring(L, lua_toboolean(L, -1) ? "1" : "0");
	else if (type != LUA_TNUMBER && type != LUA_TSTRING)
		luaL_error(L,
			   "'%s' is a %s: expected a text, a number, a boolean, or a "
			   "list of such",
			   name, luaL_typename(L, -1));
	if (r->rc == TIDE_OK)
		r->rc = r->on_value(r->ctx, name, lua_tostring(L, -1), r->err);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The keys of the table at 2, sorted; gives how many there are. */
static size_t read_names(lua_State *L, const char *names[CONFIG_VALUES_MAX])
{
	size_t count = 0;

	for (lua_pushnil(L); lua_next(L, 2) != 0; lua_pop(L, 1)) {
		if (lua_type(L, -2) != LUA_TSTRING)
			luaL_error(L, "the keys of a configuration are the names of "
				      "options");
		if (count == CONFIG_VALUES_MAX)
			luaL_error(L, "a configuration has at most %d values",
				   CONFIG_VALUES_MAX);
		names[count++] = lua_tostring(L, -2);
	}
	qsort(names, count, sizeof(*names), compare);
	return count;
}

static int body(lua_State *L)
{
	struct config_reading *r = lua_touserdata(L, 1);
	const char *names[CONFIG_VALUES_MAX];

	sandbox_open(L, &r->sandbox);
	sandbox_load_take(L, r->source, r->path);
	lua_call(L, 0, 1);
	if (!lua_istable(L, -1))
		return luaL_error(
			L, "a configuration must return a table; this file returned %s",
			luaL_typename(L, -1));
	size_t count = read_names(L, names);
	for (size_t i = 0; i < count; i++, lua_settop(L, 2)) {
		if (lua_getfield(L, 2, names[i]) != LUA_TTABLE) {
			pass_value(L, r, names[i]);
			continue;
		}
		for (lua_Integer n = 1; n <= luaL_len(L, 3); n++, lua_settop(L, 3)) {
			lua_rawgeti(L, 3, n);
			pass_value(L, r, names[i]);
		}
	}
	return 0;
}

static int run(struct config_reading *r, struct error *err)
{
	struct script_state state;
	struct script_call call = {
		.file = r->path, .account = &state.own, .body = body, .ctx = r
	};
	struct watchdog *watchdog;
	int rc = watchdog_create(&watchdog, CONFIG_BUDGET_MS, script_on_overrun);

	if (rc < 0)
		return error_set(err, rc, "cannot start the watchdog: %s",
				 error_text(rc));
	rc = script_state_init(&state, watchdog, CONFIG_MEMORY_BYTES);
	if (rc == TIDE_OK) {
		rc = script_enter(&state, &call, err);
		script_state_deinit(&state);
	} else {
		error_set(err, rc, "out of memory for a Lua state");
	}
	watchdog_destroy(watchdog);
	return rc;
}

int config_file_read(const char *path, config_value_fn on_value, void *ctx,
		     struct error *err)
{
	struct source source;
	struct config_reading r = { .source = &source,
				    .path = path,
				    .sandbox = { .rules_dir = "", .lua_dir = "" },
				    .on_value = on_value,
				    .ctx = ctx,
				    .err = err };
	int rc = source_read(&source, path, path, err);

	if (rc == TIDE_OK)
		rc = run(&r, err);
	source_free(&source);
	return rc == TIDE_OK ? r.rc : rc;
}
