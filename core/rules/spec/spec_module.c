/* spec_module.c: the Lua module "tidemq" of specs: engines, and what scripts see and
 * leave beside their decisions: the clock, tide.shared, counters, queues, lines of the
 * log. */

#include "spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/mem.h"
#include "figures/figure.h"
#include "host/log.h"
#include "rules/api/shared.h"
#include "rules/engine/engine_status.h"
#include "rules/sandbox/field.h"
#include "evaluate.h"
#include "simulate_retry.h"
#include "spec_value.h"

#define LINES_MAX 1000 /* the first ones; kept until log() */
#define COUNTERS_MAX 100000

static struct engine *engine_of(lua_State *L)
{
	return spec_box_check(L, SPEC_ENGINE);
}

/* ---- The clock and chance ---- */

/* set_now (ms): what tide.now gives from here on; nil for the real time */
static int l_set_now(lua_State *L)
{
	struct engine *e = engine_of(L);

	e->tide.fixed_now_ms = luaL_optinteger(L, 2, 0);
	e->tide.is_clock_fixed = !lua_isnil(L, 2);
	return 0;
}

/* seed (n): tide.random repeats */
static int l_seed(lua_State *L)
{
	engine_of(L)->tide.random_state = (uint64_t)luaL_checkinteger(L, 2);
	return 0;
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

/* advance (ms or duration) -> the time after it: the clock stands still in between */
static int l_advance(lua_State *L)
{
	struct engine *e = engine_of(L);

	e->tide.fixed_now_ms = api_tide_now_ms(&e->tide) + read_ms(L, 2);
	e->tide.is_clock_fixed = true;
	lua_pushinteger(L, e->tide.fixed_now_ms);
	return 1;
}

/* ---- The log ---- */

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

static void forget_lines(struct spec_lines *lines)
{
	while (lines->count > 0)
		mem_free(lines->texts[--lines->count]);
}

/* log () -> the lines since the last call: { "warn filter/10-x.lua:3: text", … } */
static int l_log(lua_State *L)
{
	struct spec_lines *lines = engine_of(L)->tide.on_line_ctx;

	lua_newtable(L);
	for (size_t i = 0; i < lines->count; i++) {
		lua_pushstring(L, lines->texts[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	forget_lines(lines);
	return 1;
}

/* traceback () -> the stack of Lua of the last call's error, a line for each function; ""
 * for none */
static int l_traceback(lua_State *L)
{
	lua_pushstring(L, engine_of(L)->current->script.traceback);
	return 1;
}

/* ---- tide.shared ---- */

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

/* shared (key [, value [, ttl]]) -> what tide.shared has under the key; with a value it
 * is set, with nil it is removed. TIDE_ELIMIT: there is no room. */
static int l_shared(lua_State *L)
{
	struct engine *e = engine_of(L);
	bool is_written = lua_gettop(L) >= 3;
	struct shared_op op = read_op(L, e);
	struct shared_value value;
	struct error err;
	int rc = TIDE_OK;

	lua_settop(L, 4);
	if (!lua_isnil(L, 4))
		op.expires_unix_ms = op.now_ms + read_ms(L, 4);
	if (!is_written && shared_get(e->tide.shared, &op, &value) == TIDE_OK) {
		push_value(L, &value);
		return 1;
	}
	if (is_written && lua_isnil(L, 3)) {
		shared_remove(e->tide.shared, &op);
	} else if (is_written) {
		value = read_value(L, 3);
		rc = shared_set(e->tide.shared, &op, &value, &err);
	}
	lua_pushvalue(L, 3);
	return spec_value_answer(L, rc, &err, 1);
}

/* To the table on the top. Allocation may raise, and nothing is owned then. */
static void add_key(void *ctx, const struct shared_info *info)
{
	lua_State *L = ctx;

	field_push(L, info->key);
	lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/* shared_list ([prefix]) -> the keys that begin with it, sorted */
static int l_shared_list(lua_State *L)
{
	struct engine *e = engine_of(L);
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
	return 1;
}

/* shared_ttl (key) -> milliseconds until it expires; nil: it does not, or is not there */
static int l_shared_ttl(lua_State *L)
{
	struct engine *e = engine_of(L);
	const struct shared_op op = read_op(L, e);
	struct shared_info info;

	if (shared_read(e->tide.shared, &op, &info) == TIDE_OK && info.expires_unix_ms)
		lua_pushinteger(L, info.expires_unix_ms - op.now_ms);
	else
		lua_pushnil(L);
	return 1;
}

/* Likewise. */
static void add_counter(void *ctx, const struct shared_info *info)
{
	lua_State *L = ctx;

	field_push(L, info->key);
	push_value(L, &info->value);
	lua_rawset(L, -3);
}

/* counters () -> the values of tide.counter by name */
static int l_counters(lua_State *L)
{
	struct engine *e = engine_of(L);

	lua_newtable(L);
	shared_each_counter(e->tide.shared, engine_now_ms(e), COUNTERS_MAX, add_counter,
			    L);
	return 1;
}

/* ---- tide.queue ---- */

struct spec_queue {
	struct spec_queue *next;
	double facts[FIGURE_ROWS_MAX]; /* by row */
	char name[];
};

static const void *find_queue(void *ctx, struct slice vhost, struct slice name)
{
	const struct spec_queue *q = ctx;

	while (q && !slice_is(name, q->name))
		q = q->next;
	return q;
}

static double read_fact(const void *queue, unsigned row)
{
	return ((const struct spec_queue *)queue)->facts[row];
}

/* The one of that name; NULL: all. */
static void forget_queues(struct engine *e, const char *name)
{
	struct spec_queue *q, **at = (struct spec_queue **)&e->tide.queues.ctx;

	while ((q = *at) != NULL) {
		if (name && strcmp(q->name, name) != 0) {
			at = &q->next;
			continue;
		}
		*at = q->next;
		mem_free(q);
	}
}

/* Facts that are not given are 0; negative ones the queue does not have. */
static void read_facts(lua_State *L, int table, double *facts)
{
	const char *names[FIGURE_ROWS_MAX + 1] = { NULL };
	unsigned count = 0;

	for (unsigned i = 0; i < queue_facts_count; i++)
		if (queue_facts_names[i])
			names[count++] = queue_facts_names[i];
	field_check_names(L, table, "a queue", names);
	for (unsigned i = 0; i < queue_facts_count; i++) {
		if (!queue_facts_names[i])
			continue;
		lua_getfield(L, table, queue_facts_names[i]);
		facts[i] = luaL_optnumber(L, -1, 0);
		if (facts[i] < 0)
			facts[i] = NAN;
		lua_pop(L, 1);
	}
}

/* set_queue (name, { ready =, … }): in every vhost; nil: there is none of that name */
static int l_set_queue(lua_State *L)
{
	struct engine *e = engine_of(L);
	const char *name = luaL_checkstring(L, 2);
	double facts[FIGURE_ROWS_MAX] = { 0 };
	bool is_gone = lua_isnoneornil(L, 3);

	if (!is_gone) {
		luaL_checktype(L, 3, LUA_TTABLE);
		read_facts(L, 3, facts);
	}
	forget_queues(e, name);
	if (is_gone)
		return 0;
	struct spec_queue *q = mem_alloc(sizeof(*q) + strlen(name) + 1);
	memcpy(q->facts, facts, sizeof(facts));
	memcpy(q->name, name, strlen(name) + 1);
	q->next = e->tide.queues.ctx;
	e->tide.queues = (struct queue_facts){ q, find_queue, read_fact };
	return 0;
}

/* ---- Engines ---- */

/* Left by spec_run in the registry; else the directory of that name. */
static const char *dir_field(lua_State *L, const char *name)
{
	lua_getfield(L, LUA_REGISTRYINDEX, name);
	const char *preset = luaL_optstring(L, -1, name);
	return spec_value_text(L, 1, name, preset);
}

/* `secrets`: a directory, or a table of texts. Without it secrets are made up. The text
 * stays. */
static void read_secrets(lua_State *L, struct engine_config *config, struct args *given)
{
	int type = lua_getfield(L, 1, "secrets");

	config->has_stand_in_secrets = type == LUA_TNIL;
	if (type == LUA_TSTRING)
		config->secrets_dir = lua_tostring(L, -1);
	spec_value_args(L, lua_gettop(L), given);
	config->secrets = given;
}

/* `settings`: a table of texts. Without it those that `tidemq test` was given. */
static void read_settings(lua_State *L, struct engine_config *config, struct args *given)
{
	const char *inherited = getenv(API_SETTING_VARIABLE);

	*given = (struct args){ 0 };
	if (lua_getfield(L, 1, "settings") != LUA_TNIL)
		spec_value_args(L, lua_gettop(L), given);
	else if (inherited && args_parse(given, slice_from(inherited)) != TIDE_OK)
		*given = (struct args){ 0 };
	lua_pop(L, 1);
	config->settings = given;
}

static int l_open(lua_State *L)
{
	struct error err;
	struct args secrets, settings;

	spec_value_table(L, 1);
	struct engine_config config = {
		.rules_dir = dir_field(L, "rules"),
		.lua_dir = dir_field(L, "lua"),
		.memory_max_bytes = (size_t)spec_value_integer(L, 1, "memory_bytes",
							       ENGINE_MEMORY_DEFAULT),
		.call_budget_ms = spec_value_integer(L, 1, "budget_ms", 1000),
		.shared_entries_max =
			(size_t)spec_value_integer(L, 1, "shared_entries", 0),
	};
	struct spec_box *box = spec_box_push(L, SPEC_ENGINE, 0);
	read_secrets(L, &config, &secrets);
	read_settings(L, &config, &settings);
	uv_loop_t *loop = malloc(sizeof(*loop));
	uv_loop_init(loop);
	struct engine *e;
	int rc = engine_create(&e, loop, &config, NULL, &err);
	args_deinit(&secrets);
	args_deinit(&settings);
	if (rc != TIDE_OK) {
		uv_loop_close(loop);
		free(loop);
		return spec_value_answer(L, rc, &err, 1);
	}
	e->tide.on_line = keep_line;
	e->tide.on_line_ctx = mem_zalloc(sizeof(struct spec_lines));
	box->object = e;
	lua_pop(L, 1);
	return 1;
}

static int l_engine_close(lua_State *L)
{
	struct spec_box *box = luaL_checkudata(L, 1, SPEC_ENGINE);
	struct engine *e = box->object;

	if (!e || TAILQ_FIRST(&e->handles))
		return 0;
	uv_loop_t *loop = e->loop;
	box->object = NULL;
	forget_queues(e, NULL);
	e->tide.on_line = NULL;
	forget_lines(e->tide.on_line_ctx);
	mem_free(e->tide.on_line_ctx);
	engine_close(e, NULL, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	uv_loop_close(loop);
	free(loop);
	return 0;
}

static int l_reload(lua_State *L)
{
	struct error err;
	int rc = reload_now(engine_of(L), &err);

	lua_pushboolean(L, 1);
	return spec_value_answer(L, rc, &err, 1);
}

/* eval (text [, msg]) -> the values of a line of Lua as text; or nil, message, code, and
 * whether the line is not complete */
static int l_eval(lua_State *L)
{
	struct engine *e = engine_of(L);
	struct evaluate_spec spec = { .text = slice_from(luaL_checkstring(L, 2)),
				      .vhost = SLICE("/") };
	struct buf out = { 0 };
	struct error err;
	bool is_open;

	if (!lua_isnoneornil(L, 3))
		spec.msg = spec_value_msg(L, 3);
	int rc = evaluate_line(e, &spec, &out, &is_open, &err);
	msg_unref((struct msg *)spec.msg);
	if (rc == TIDE_OK)
		lua_pushlstring(L, buf_cstr(&out), buf_len(&out));
	buf_deinit(&out);
	int count = spec_value_answer(L, rc, &err, 1);
	lua_pushboolean(L, is_open);
	return rc == TIDE_OK ? (lua_pop(L, 1), count) : count + 1;
}

static int l_status(lua_State *L)
{
	struct buf out = { 0 };
	struct json json = { .out = &out };
	struct engine *e = engine_of(L);

	engine_status(e, &json);
	lua_pushstring(L, buf_cstr(&out));
	buf_deinit(&out);
	return 1;
}

/* dry_run (f) -> f's results; what is asked of the engine in it changes nothing */
static int l_dry_run(lua_State *L)
{
	struct decision_context context = {
		.has_random = true,
		.random_state = engine_random_state(engine_of(L)),
		.is_dry = true,
	};
	struct spec_box *box = lua_touserdata(L, 1), outer = *box;

	lua_settop(L, 2);
	box->context = &context;
	int rc = lua_pcall(L, 0, LUA_MULTRET, 0);
	box->context = outer.context;
	return rc == LUA_OK ? lua_gettop(L) - 1 : lua_error(L);
}

/* simulate (name, options, { reason =, failures =, limit =, held = }) -> the
 * document */
static int l_simulate(lua_State *L)
{
	struct engine *e = engine_of(L);
	struct error err;
	struct args args;
	struct buf out = { 0 };
	struct json json = { .out = &out };

	spec_value_table(L, 4);
	struct simulate_spec spec = {
		.name = slice_from(luaL_checkstring(L, 2)),
		.options = &args,
		.reason = spec_value_text(L, 4, "reason", "nack"),
		.failures_max = (unsigned)spec_value_integer(L, 4, "failures", 100),
		.delivery_limit = (uint32_t)spec_value_integer(L, 4, "limit", 0),
		.held_ms = spec_value_integer(L, 4, "held", 0),
	};
	spec_value_args(L, 3, &args);
	int rc = simulate_retry(e, &spec, &json, &err);
	args_deinit(&args);
	if (rc == TIDE_OK)
		lua_pushstring(L, buf_cstr(&out));
	buf_deinit(&out);
	return spec_value_answer(L, rc, &err, 1);
}

int spec_module_open(lua_State *L)
{
	static const luaL_Reg functions[] = { { "open", l_open }, { NULL, NULL } };
	static const luaL_Reg engine[] = {
		{ "reload", l_reload },
		{ "dry_run", l_dry_run },
		{ "seed", l_seed },
		{ "advance", l_advance },
		{ "shared", l_shared },
		{ "shared_list", l_shared_list },
		{ "shared_ttl", l_shared_ttl },
		{ "counters", l_counters },
		{ "log", l_log },
		{ "traceback", l_traceback },
		{ "eval", l_eval },
		{ "set_now", l_set_now },
		{ "set_queue", l_set_queue },
		{ "status", l_status },
		{ "simulate", l_simulate },
		{ NULL, NULL },
	};

	spec_box_type(L, SPEC_ENGINE, engine, l_engine_close);
	luaL_getmetatable(L, SPEC_ENGINE);
	lua_getfield(L, -1, "__index");
	luaL_setfuncs(L, spec_ask_methods, 0);
	spec_ask_open(L);
	luaL_newlib(L, functions);
	return 1;
}
