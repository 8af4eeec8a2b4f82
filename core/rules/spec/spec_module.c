#include "spec.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "rules/api/api_tide.h"
#include "rules/engine/engine_private.h"
#include "rules/engine/engine_status.h"
#include "rules/engine/strategy.h"
#include "rules/engine/schedule.h"
#include "rules/sandbox/field.h"
#include "evaluate.h"
#include "simulate_retry.h"
#include "spec_ask.h"
#include "spec_auth.h"
#include "spec_box.h"
#include "spec_declare.h"
#include "spec_field.h"
#include "spec_hook.h"
#include "spec_index.h"
#include "spec_msg.h"
#include "spec_queue.h"
#include "spec_strategy.h"
#include "spec_world.h"

#define INDEX "luatide.index"

/* Left by spec_run in the registry; else the directory of that name. */
static const char *dir_field(lua_State *L, const char *name)
{
	lua_getfield(L, LUA_REGISTRYINDEX, name);
	const char *preset = luaL_optstring(L, -1, name);
	return spec_field_text(L, 1, name, preset);
}

/* `secrets`: a directory, or a table of texts. Without it secrets are made up. The text
 * stays. */
static void read_secrets(lua_State *L, struct engine_config *config, struct args *given)
{
	int type = lua_getfield(L, 1, "secrets");

	config->has_stand_in_secrets = type == LUA_TNIL;
	if (type == LUA_TSTRING)
		config->secrets_dir = lua_tostring(L, -1);
	spec_box_args(L, lua_gettop(L), given);
	config->secrets = given;
}

/* `settings`: a table of texts. Without it those that `tidemq test` was given. */
static void read_settings(lua_State *L, struct engine_config *config, struct args *given)
{
	const char *inherited = getenv(API_SETTING_VARIABLE);

	*given = (struct args){ 0 };
	if (lua_getfield(L, 1, "settings") != LUA_TNIL)
		spec_box_args(L, lua_gettop(L), given);
	else if (inherited && args_parse(given, slice_from(inherited)) != TIDE_OK)
		*given = (struct args){ 0 };
	lua_pop(L, 1);
	config->settings = given;
}

static int l_open(lua_State *L)
{
	struct error err;
	struct args secrets, settings;

	if (lua_isnoneornil(L, 1)) {
		lua_settop(L, 0);
		lua_newtable(L);
	}
	luaL_checktype(L, 1, LUA_TTABLE);
	struct engine_config config = {
		.rules_dir = dir_field(L, "rules"),
		.lua_dir = dir_field(L, "lua"),
		.memory_max_bytes = (size_t)spec_field_integer(L, 1, "memory_bytes",
							       ENGINE_MEMORY_DEFAULT),
		.call_budget_ms = spec_field_integer(L, 1, "budget_ms", 1000),
		.shared_entries_max =
			(size_t)spec_field_integer(L, 1, "shared_entries", 0),
	};
	struct spec_box *box = spec_box_push(L, SPEC_BOX_ENGINE, 0);
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
		return spec_box_answer(L, rc, &err);
	}
	spec_world_open(e);
	box->object = e;
	lua_pop(L, 1);
	return 1;
}

static int l_engine_close(lua_State *L)
{
	struct spec_box *box = luaL_checkudata(L, 1, SPEC_BOX_ENGINE);
	struct engine *e = box->object;

	if (!e || TAILQ_FIRST(&e->handles))
		return 0;
	uv_loop_t *loop = e->loop;
	box->object = NULL;
	spec_queue_clear(e);
	spec_world_close(e);
	engine_close(e, NULL, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	uv_loop_close(loop);
	free(loop);
	return 0;
}

static int l_reload(lua_State *L)
{
	struct error err;
	int rc = reload_now(spec_box_check(L, SPEC_BOX_ENGINE), &err);

	lua_pushboolean(L, 1);
	return spec_box_answer(L, rc, &err);
}

/* Methods of an engine that are elsewhere. */
#define METHOD(name, push, results)                          \
	static int name(lua_State *L)                        \
	{                                                    \
		push(L, spec_box_check(L, SPEC_BOX_ENGINE)); \
		return results;                              \
	}
METHOD(l_seed, spec_world_seed, 0)
METHOD(l_set_now, spec_world_set_now, 0)
METHOD(l_advance, spec_world_advance, 1)
METHOD(l_shared_list, spec_world_shared_list, 1)
METHOD(l_shared_ttl, spec_world_shared_ttl, 1)
METHOD(l_counters, spec_world_counters, 1)
METHOD(l_log, spec_world_log, 1)
METHOD(l_traceback, spec_world_traceback, 1)
METHOD(l_set_queue, spec_queue_set, 0)

/* eval (text [, msg]) -> the values of a line of Lua as text; or nil, message, code, and
 * whether the line is not complete */
static int l_eval(lua_State *L)
{
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);
	struct evaluate_spec spec = { .text = slice_from(luaL_checkstring(L, 2)),
				      .vhost = SLICE("/") };
	struct buf out = { 0 };
	struct error err;
	bool is_open;

	if (!lua_isnoneornil(L, 3))
		spec.msg = spec_msg_read(L, 3);
	int rc = evaluate_line(e, &spec, &out, &is_open, &err);
	msg_unref((struct msg *)spec.msg);
	if (rc == TIDE_OK)
		lua_pushlstring(L, buf_cstr(&out), buf_len(&out));
	buf_deinit(&out);
	int count = spec_box_answer(L, rc, &err);
	lua_pushboolean(L, is_open);
	return rc == TIDE_OK ? (lua_pop(L, 1), count) : count + 1;
}

static int l_shared(lua_State *L)
{
	struct error err;
	int rc = spec_world_shared(L, spec_box_check(L, SPEC_BOX_ENGINE), &err);

	return spec_box_answer(L, rc, &err);
}

static int l_status(lua_State *L)
{
	struct buf out = { 0 };
	struct json json = { .out = &out };
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);

	engine_status(e, &json);
	lua_pushstring(L, buf_cstr(&out));
	buf_deinit(&out);
	return 1;
}

/* A run's messages go into the table on the top of this state. */
static int take_message(void *ctx, const struct msg *m, struct error *err)
{
	static const char *const missing[] = { "id", "due", "expires" };
	lua_State *L = ctx;

	if (slice_is(m->exchange, "nowhere"))
		return error_set(err, TIDE_ENOTFOUND, "there is no exchange 'nowhere'");
	spec_msg_push(L, m);
	for (int i = 0; i < 3; i++) {
		lua_pushnil(L);
		lua_setfield(L, -2, missing[i]);
	}
	spec_field_set_integer(L, "delay", m->due_unix_ms);
	lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
	return TIDE_OK;
}

/* run (name, tick ms [, missed]) -> the messages that it published */
static int l_run(lua_State *L)
{
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);
	const struct schedule_broker broker = { L, take_message, SLICE("/") };
	struct schedule_tick tick = { luaL_checkinteger(L, 3),
				      (uint64_t)luaL_optinteger(L, 4, 0) };
	struct error err;

	lua_newtable(L);
	int rc =
		schedule_run(e, slice_from(luaL_checkstring(L, 2)), &tick, &broker, &err);
	return spec_box_answer(L, rc, &err);
}

/* next_run (name, ms) -> when the schedule's first tick after that time is run */
static int l_next_run(lua_State *L)
{
	const struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);
	struct slice name = slice_from(luaL_checkstring(L, 2));
	int64_t ms = luaL_checkinteger(L, 3);
	struct rule *r;
	struct error err;
	int rc = generation_get(e->current, SCRIPT_SCHEDULE, name, &r, &err);

	if (rc == TIDE_OK)
		lua_pushinteger(L,
				schedule_spec_due(r->schedule, r->name,
						  schedule_spec_next(r->schedule, ms)));
	return spec_box_answer(L, rc, &err);
}

static int l_index(lua_State *L)
{
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);
	struct error err;
	struct args args;
	struct spec_index *x;
	const struct index_spec spec = { .type = slice_from(luaL_checkstring(L, 2)),
					 .options = &args,
					 .user = "exchange 'spec'" };
	struct spec_box *box = spec_box_push(L, INDEX, 1);

	spec_box_args(L, 3, &args);
	int rc = spec_index_create(e, &spec, &x, &err);
	args_deinit(&args);
	if (rc == TIDE_OK)
		box->object = x;
	return spec_box_answer(L, rc, &err);
}

static int l_index_close(lua_State *L)
{
	struct spec_box *box = luaL_checkudata(L, 1, INDEX);

	spec_index_destroy(box->object);
	box->object = NULL;
	return 0;
}

static int change(lua_State *L,
		  int (*make)(struct spec_index *x, const struct index_binding *b,
			      struct error *err))
{
	struct spec_index *x = spec_box_check(L, INDEX);
	struct error err;
	struct args args;
	const struct index_binding b = { .dest = (uint32_t)luaL_checkinteger(L, 3),
					 .pattern = slice_from(luaL_checkstring(L, 2)),
					 .args = &args };

	spec_box_args(L, 4, &args);
	int rc = make(x, &b, &err);
	args_deinit(&args);
	lua_pushboolean(L, 1);
	return spec_box_answer(L, rc, &err);
}

static int l_bind(lua_State *L)
{
	return change(L, spec_index_bind);
}

static int l_unbind(lua_State *L)
{
	return change(L, spec_index_unbind);
}

static int l_route(lua_State *L)
{
	struct spec_index *x = spec_box_check(L, INDEX);
	struct error err;
	const uint32_t *dests;
	size_t count;
	struct script_question q = { spec_msg_read(L, 2), spec_box_context(L) };
	int rc = index_route(x->index, &q, &dests, &count, &err);

	msg_unref((struct msg *)q.msg);
	if (rc != TIDE_OK)
		return spec_box_answer(L, rc, &err);
	lua_createtable(L, (int)count, 0);
	for (size_t i = 0; i < count; i++) {
		lua_pushinteger(L, dests[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

static int l_index_is_pure(lua_State *L)
{
	lua_pushboolean(
		L, index_is_pure(((struct spec_index *)spec_box_check(L, INDEX))->index));
	return 1;
}

/* The filters that a message has passed, while their engine is as it is. */
struct passed {
	const char *files[64];
	size_t count;
};

static void note_step(void *ctx, const struct filter_step *step)
{
	struct passed *passed = ctx;

	if (passed->count < sizeof(passed->files) / sizeof(passed->files[0]))
		passed->files[passed->count++] = step->file;
}

static void push_pass(lua_State *L, const struct filter_pass *p)
{
	const struct passed *passed = p->ctx;

	spec_msg_push(L, p->msg);
	spec_msg_set_list(L, "copies", p->copies.items, p->copies.count);
	spec_field_set_integer(L, "hops", p->hops);
	spec_field_set_list(L, "passed", passed->files, passed->count);
}

/* filter (msg) -> what became of it, with `copies`, `hops` and the files that it has
 * `passed`; the copies do not pass the filters again */
static int l_filter(lua_State *L)
{
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);
	struct passed passed = { .count = 0 };
	struct error err;
	struct filter_pass p = { .msg = spec_msg_read(L, 2),
				 .context = spec_box_context(L),
				 .vhost = spec_field_slice(L, 2, "vhost", "/"),
				 .copies = { .max = DRAFT_COPIES_MAX },
				 .on_step = note_step,
				 .ctx = &passed };

	p.now_unix_ms = p.msg->ts_unix_ms;
	int rc = filter_run(e, &p, &err);
	if (rc == TIDE_OK)
		push_pass(L, &p);
	for (unsigned i = 0; i < p.copies.count; i++)
		msg_unref(p.copies.items[i]);
	msg_unref(p.msg);
	return spec_box_answer(L, rc, &err);
}

static int l_deliver(lua_State *L)
{
	const struct spec_hook h = { spec_box_check(L, SPEC_BOX_ENGINE),
				     spec_box_context(L), spec_msg_read(L, 2) };
	struct error err;
	int rc = spec_hook_deliver(L, &h, &err);

	msg_unref((struct msg *)h.msg);
	return spec_box_answer(L, rc, &err);
}

static int l_settled(lua_State *L)
{
	const struct spec_hook h = { spec_box_check(L, SPEC_BOX_ENGINE),
				     spec_box_context(L), spec_msg_read(L, 2) };
	struct error err;
	int rc = spec_hook_settled(L, &h, &err);

	msg_unref((struct msg *)h.msg);
	return spec_box_answer(L, rc, &err);
}

/* authenticate (login) -> "allow", "refuse" or "none"; the user that was made, or the
 * reason, or nil; the script */
static int l_authenticate(lua_State *L)
{
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);
	struct error err;
	int rc = spec_auth_authenticate(L, e, spec_box_context(L), &err);

	return rc == TIDE_OK ? SPEC_AUTH_RESULTS : spec_box_answer(L, rc, &err);
}

/* authorize (user, action, object) -> the same */
static int l_authorize(lua_State *L)
{
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);
	struct error err;
	int rc = spec_auth_authorize(L, e, spec_box_context(L), &err);

	return rc == TIDE_OK ? SPEC_AUTH_RESULTS : spec_box_answer(L, rc, &err);
}

/* declare ({ kind =, name =, options = }) -> its options, and the files that changed
 * them, or nil */
static int l_declare(lua_State *L)
{
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);
	struct error err;
	int rc = spec_declare_ask(L, e, &err);

	return rc == TIDE_OK ? SPEC_DECLARE_RESULTS : spec_box_answer(L, rc, &err);
}

static int l_connect(lua_State *L)
{
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);

	return spec_auth_connect(L, e, spec_box_context(L));
}

static int l_ask(lua_State *L)
{
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);

	return spec_ask(L, e, spec_box_context(L));
}

static int l_filter_count(lua_State *L)
{
	lua_pushinteger(L, filter_count(spec_box_check(L, SPEC_BOX_ENGINE)));
	return 1;
}

/* dry_run (f) -> f's results; what is asked of the engine in it changes nothing */
static int l_dry_run(lua_State *L)
{
	struct decision_context context = {
		.has_random = true,
		.random_state = engine_random_state(spec_box_check(L, SPEC_BOX_ENGINE)),
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
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);
	struct error err;
	struct args args;
	struct buf out = { 0 };
	struct json json = { .out = &out };

	lua_settop(L, 4);
	if (lua_isnil(L, 4)) {
		lua_newtable(L);
		lua_replace(L, 4);
	}
	struct simulate_spec spec = {
		.name = slice_from(luaL_checkstring(L, 2)),
		.options = &args,
		.reason = spec_field_text(L, 4, "reason", "nack"),
		.failures_max = (unsigned)spec_field_integer(L, 4, "failures", 100),
		.delivery_limit = (uint32_t)spec_field_integer(L, 4, "limit", 0),
		.held_ms = spec_field_integer(L, 4, "held", 0),
	};
	spec_box_args(L, 3, &args);
	int rc = simulate_retry(e, &spec, &json, &err);
	args_deinit(&args);
	if (rc == TIDE_OK)
		lua_pushstring(L, buf_cstr(&out));
	buf_deinit(&out);
	return spec_box_answer(L, rc, &err);
}

int spec_module_open(lua_State *L)
{
	static const luaL_Reg functions[] = { { "open", l_open }, { NULL, NULL } };
	static const luaL_Reg engine[] = {
		{ "index", l_index },
		{ "strategy", spec_strategy_create },
		{ "reload", l_reload },
		{ "filter", l_filter },
		{ "filter_count", l_filter_count },
		{ "deliver", l_deliver },
		{ "settled", l_settled },
		{ "authenticate", l_authenticate },
		{ "authorize", l_authorize },
		{ "declare", l_declare },
		{ "connect", l_connect },
		{ "ask", l_ask },
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
		{ "run", l_run },
		{ "next_run", l_next_run },
		{ NULL, NULL },
	};
	static const luaL_Reg index[] = {
		{ "bind", l_bind },   { "unbind", l_unbind },
		{ "route", l_route }, { "is_pure", l_index_is_pure },
		{ NULL, NULL },
	};

	spec_box_type(L, SPEC_BOX_ENGINE, engine, l_engine_close);
	spec_box_type(L, INDEX, index, l_index_close);
	spec_strategy_open(L);
	luaL_newlib(L, functions);
	return 1;
}
