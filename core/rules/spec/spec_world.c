#include "spec_world.h"

#include <lauxlib.h>

#include "base/duration.h"
#include "base/mem.h"
#include "host/log.h"
#include "rules/api/shared.h"
#include "rules/sandbox/field.h"

#define LINES_MAX 1000
#define COUNTERS_MAX 100000

struct spec_lines {
	char *texts[LINES_MAX];
	size_t count;
};

static void keep_line(void *ctx, enum log_level level, const char *text)
{
	static const char *const levels[] = { [LOG_ERROR] = "error",
					      [LOG_WARN] = "warn",
					      [LOG_INFO] = "info",
					      [LOG_DEBUG] = "debug" };
	struct spec_lines *lines = ctx;
	struct buf line = { 0 };

	if (lines->count == LINES_MAX)
		return;
	buf_printf(&line, "%s %s", levels[level], text);
	lines->texts[lines->count++] = mem_strdup(buf_cstr(&line));
	buf_deinit(&line);
}

void spec_world_open(struct engine *e)
{
	e->tide.on_line = keep_line;
	e->tide.on_line_ctx = mem_zalloc(sizeof(struct spec_lines));
}

static void forget_lines(struct spec_lines *lines)
{
	while (lines->count > 0)
		mem_free(lines->texts[--lines->count]);
}

void spec_world_close(struct engine *e)
{
	e->tide.on_line = NULL;
	forget_lines(e->tide.on_line_ctx);
	mem_free(e->tide.on_line_ctx);
}

void spec_world_set_now(lua_State *L, struct engine *e)
{
	e->tide.fixed_now_ms = luaL_optinteger(L, 2, 0);
	e->tide.is_clock_fixed = !lua_isnil(L, 2);
}

void spec_world_seed(lua_State *L, struct engine *e)
{
	e->tide.random_state = (uint64_t)luaL_checkinteger(L, 2);
}

/* A number of milliseconds or the text of a duration. */
static int64_t read_ms(lua_State *L, int arg)
{
	int64_t ms;

	if (lua_type(L, arg) == LUA_TNUMBER)
		return luaL_checkinteger(L, arg);
	if (duration_parse(slice_from(luaL_checkstring(L, arg)), &ms) != TIDE_OK)
		luaL_argerror(L, arg, "not a duration; " FIELD_DURATIONS);
	return ms;
}

void spec_world_advance(lua_State *L, struct engine *e)
{
	int64_t ms = read_ms(L, 2);

	e->tide.fixed_now_ms = api_tide_now_ms(&e->tide) + ms;
	e->tide.is_clock_fixed = true;
	lua_pushinteger(L, e->tide.fixed_now_ms);
}

static void push_value(lua_State *L, const struct shared_value *v)
{
	if (v->type == SHARED_TEXT)
		field_push(L, v->text);
	else if (v->type == SHARED_INTEGER)
		lua_pushinteger(L, v->integer);
	else if (v->type == SHARED_NUMBER)
		lua_pushnumber(L, v->number);
	else
		lua_pushboolean(L, v->boolean);
}

static struct shared_value read_value(lua_State *L, int arg)
{
	struct shared_value v = { .type = SHARED_TEXT };

	if (lua_isboolean(L, arg)) {
		v.type = SHARED_BOOLEAN;
		v.boolean = lua_toboolean(L, arg);
	} else if (lua_isinteger(L, arg)) {
		v.type = SHARED_INTEGER;
		v.integer = lua_tointeger(L, arg);
	} else if (lua_type(L, arg) == LUA_TNUMBER) {
		v.type = SHARED_NUMBER;
		v.number = lua_tonumber(L, arg);
	} else {
		luaL_checktype(L, arg, LUA_TSTRING);
		v.text = field_slice(L, arg);
	}
	return v;
}

/* The key is argument 2. */
static struct shared_op read_op(lua_State *L, struct engine *e)
{
	luaL_checktype(L, 2, LUA_TSTRING);
	struct slice key = field_slice(L, 2);
	luaL_argcheck(L, key.len > 0 && key.len <= SHARED_KEY_MAX, 2,
		      "a key has 1 to 256 bytes");
	return (struct shared_op){ .space = SHARED_KEYS,
				   .now_ms = engine_now_ms(e),
				   .key = key };
}

int spec_world_shared(lua_State *L, struct engine *e, struct error *err)
{
	int argument_count = lua_gettop(L);
	struct shared_op op = read_op(L, e);
	struct shared_value value;

	if (argument_count < 3) {
		if (shared_get(e->tide.shared, &op, &value) == TIDE_OK)
			push_value(L, &value);
		else
			lua_pushnil(L);
		return TIDE_OK;
	}
	lua_settop(L, 4);
	if (!lua_isnil(L, 4))
		op.expires_unix_ms = op.now_ms + read_ms(L, 4);
	int rc = TIDE_OK;
	if (lua_isnil(L, 3)) {
		shared_remove(e->tide.shared, &op);
	} else {
		value = read_value(L, 3);
		rc = shared_set(e->tide.shared, &op, &value, err);
	}
	lua_pushvalue(L, 3);
	return rc;
}

/* To the table on the top. Allocation may raise, and nothing is owned then. */
static void add_key(void *ctx, const struct shared_info *info)
{
	lua_State *L = ctx;

	field_push(L, info->key);
	lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

void spec_world_shared_list(lua_State *L, struct engine *e)
{
	struct shared_scan scan = { .space = SHARED_KEYS,
				    .prefix = slice_from(luaL_optstring(L, 2, "")),
				    .now_ms = engine_now_ms(e) };

	lua_getglobal(L, "table");
	lua_getfield(L, -1, "sort");
	lua_newtable(L);
	do
		shared_scan(e->tide.shared, &scan, add_key, L);
	while (scan.cursor);
	lua_pushvalue(L, -1);
	lua_insert(L, -3); /* below `sort` */
	lua_call(L, 1, 0);
}

void spec_world_shared_ttl(lua_State *L, struct engine *e)
{
	const struct shared_op op = read_op(L, e);
	struct shared_info info;

	if (shared_read(e->tide.shared, &op, &info) == TIDE_OK && info.expires_unix_ms)
		lua_pushinteger(L, info.expires_unix_ms - op.now_ms);
	else
		lua_pushnil(L);
}

/* Likewise. */
static void add_counter(void *ctx, const struct shared_info *info)
{
	lua_State *L = ctx;

	field_push(L, info->key);
	push_value(L, &info->value);
	lua_rawset(L, -3);
}

void spec_world_counters(lua_State *L, struct engine *e)
{
	lua_newtable(L);
	shared_each_counter(e->tide.shared, engine_now_ms(e), COUNTERS_MAX, add_counter,
			    L);
}

void spec_world_log(lua_State *L, struct engine *e)
{
	struct spec_lines *lines = e->tide.on_line_ctx;

	lua_newtable(L);
	for (size_t i = 0; i < lines->count; i++) {
		lua_pushstring(L, lines->texts[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	forget_lines(lines);
}

void spec_world_traceback(lua_State *L, struct engine *e)
{
	lua_pushstring(L, e->current->script.traceback);
}
