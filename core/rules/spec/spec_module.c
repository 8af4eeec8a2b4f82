#include "spec.h"

#include <lauxlib.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "rules/api/api_setting.h"
#include "rules/engine/engine_private.h"
#include "rules/engine/engine_status.h"
#include "rules/engine/strategy.h"
#include "rules/engine/schedule.h"
#include "rules/sandbox/field.h"
#include "evaluate.h"
#include "simulate_retry.h"
#include "spec_auth.h"
#include "spec_declare.h"
#include "spec_hook.h"
#include "spec_connect.h"
#include "spec_index.h"
#include "spec_msg.h"
#include "spec_queue.h"
#include "spec_retry.h"
#include "spec_world.h"

#define ENGINE "luatide.engine"
#define INDEX "luatide.index"
#define STRATEGY "luatide.strategy"

struct box {
	void *object;                     /* NULL once it is destroyed */
	struct decision_context *context; /* of an engine: within dry_run, else NULL */
};

static void *unbox(lua_State *L, const char *type)
{
	struct box *box = luaL_checkudata(L, 1, type);

	luaL_argcheck(L, box->object != NULL, 1, "is closed");
	return box->object;
}

/* The box keeps the value at `owner` (its engine's) alive. */
static struct box *push_box(lua_State *L, const char *type, int owner)
{
	struct box *box = lua_newuserdatauv(L, sizeof(*box), 1);

	*box = (struct box){ .object = NULL };
	luaL_setmetatable(L, type);
	if (owner) {
		lua_pushvalue(L, owner);
		lua_setiuservalue(L, -2, 1);
	}
	return box;
}

/* That of the engine that the box at 1 is, or belongs to. */
static struct decision_context *context_of(lua_State *L)
{
	bool is_owned = lua_getiuservalue(L, 1, 1) == LUA_TUSERDATA;
	struct box *box = lua_touserdata(L, is_owned ? -1 : 1);

	lua_pop(L, 1);
	return box->context;
}

/* The value on the top, or what the engine refuses. */
static int answer(lua_State *L, int rc, const struct error *err)
{
	if (rc == TIDE_OK)
		return 1;
	lua_pushnil(L);
	lua_pushstring(L, err->text);
	lua_pushstring(L, error_wire_code(rc));
	return 3;
}

static void read_args(lua_State *L, int idx, struct args *out)
{
	*out = (struct args){ 0 };
	if (!lua_istable(L, idx))
		return;
	for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 2)) {
		const char *value = luaL_tolstring(L, -1, NULL);
		if (args_add(out, slice_from(lua_tostring(L, -3)), slice_from(value)) ==
		    TIDE_OK)
			continue;
		args_deinit(out);
		luaL_error(L, "'%s' cannot be an option with this value",
			   lua_tostring(L, -3));
	}
}

/* Left by spec_run in the registry; else the directory of that name. */
static const char *dir_field(lua_State *L, const char *name)
{
	lua_getfield(L, LUA_REGISTRYINDEX, name);
	const char *preset = luaL_optstring(L, -1, name);
	return spec_msg_text(L, 1, name, preset);
}

/* `secrets`: a directory, or a table of texts. Without it secrets are made up. The text
 * stays. */
static void read_secrets(lua_State *L, struct engine_config *config, struct args *given)
{
	int type = lua_getfield(L, 1, "secrets");

	config->has_stand_in_secrets = type == LUA_TNIL;
	if (type == LUA_TSTRING)
		config->secrets_dir = lua_tostring(L, -1);
	read_args(L, lua_gettop(L), given);
	config->secrets = given;
}

/* `settings`: a table of texts. Without it those that `tidemq test` was given. */
static void read_settings(lua_State *L, struct engine_config *config, struct args *given)
{
	const char *inherited = getenv(API_SETTING_VARIABLE);

	*given = (struct args){ 0 };
	if (lua_getfield(L, 1, "settings") != LUA_TNIL)
		read_args(L, lua_gettop(L), given);
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
		.memory_max_bytes = (size_t)spec_msg_integer(L, 1, "memory_bytes",
							     ENGINE_MEMORY_DEFAULT),
		.call_budget_ms = spec_msg_integer(L, 1, "budget_ms", 1000),
		.shared_entries_max = (size_t)spec_msg_integer(L, 1, "shared_entries", 0),
	};
	struct box *box = push_box(L, ENGINE, 0);
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
		return answer(L, rc, &err);
	}
	spec_world_open(e);
	box->object = e;
	lua_pop(L, 1);
	return 1;
}

static int l_engine_close(lua_State *L)
{
	struct box *box = luaL_checkudata(L, 1, ENGINE);
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
	int rc = reload_now(unbox(L, ENGINE), &err);

	lua_pushboolean(L, 1);
	return answer(L, rc, &err);
}

/* Methods of an engine that are elsewhere. */
#define METHOD(name, push, results)        \
	static int name(lua_State *L)      \
	{                                  \
		push(L, unbox(L, ENGINE)); \
		return results;            \
	}
METHOD(l_seed, spec_world_seed, 0)
METHOD(l_set_now, spec_world_set_now, 0)
METHOD(l_advance, spec_world_advance, 1)
METHOD(l_counters, spec_world_counters, 1)
METHOD(l_log, spec_world_log, 1)
METHOD(l_traceback, spec_world_traceback, 1)
METHOD(l_set_queue, spec_queue_set, 0)

/* eval (text [, msg]) -> the values of a line of Lua as text; or nil, message, code, and
 * whether the line is not complete */
static int l_eval(lua_State *L)
{
	struct engine *e = unbox(L, ENGINE);
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
	int count = answer(L, rc, &err);
	lua_pushboolean(L, is_open);
	return rc == TIDE_OK ? (lua_pop(L, 1), count) : count + 1;
}

static int l_shared(lua_State *L)
{
	struct error err;
	int rc = spec_world_shared(L, unbox(L, ENGINE), &err);

	return answer(L, rc, &err);
}

static int l_status(lua_State *L)
{
	struct buf out = { 0 };
	struct json json = { .out = &out };
	struct engine *e = unbox(L, ENGINE);

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
	spec_msg_set_integer(L, "delay", m->due_unix_ms);
	lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
	return TIDE_OK;
}

/* run (name, tick ms [, missed]) -> the messages that it published */
static int l_run(lua_State *L)
{
	struct engine *e = unbox(L, ENGINE);
	const struct schedule_broker broker = { L, take_message, SLICE("/") };
	struct schedule_tick tick = { luaL_checkinteger(L, 3),
				      (uint64_t)luaL_optinteger(L, 4, 0) };
	struct error err;

	lua_newtable(L);
	int rc =
		schedule_run(e, slice_from(luaL_checkstring(L, 2)), &tick, &broker, &err);
	return answer(L, rc, &err);
}

/* next_run (name, ms) -> when the schedule's first tick after that time is run */
static int l_next_run(lua_State *L)
{
	const struct engine *e = unbox(L, ENGINE);
	struct slice name = slice_from(luaL_checkstring(L, 2));
	const struct rule *r = generation_find(e->current, SCRIPT_SCHEDULE, name);
	int64_t ms = luaL_checkinteger(L, 3);

	if (r)
		ms = schedule_spec_due(r->schedule, r->name,
				       schedule_spec_next(r->schedule, ms));
	lua_pushinteger(L, ms);
	return 1;
}

static int l_index(lua_State *L)
{
	struct engine *e = unbox(L, ENGINE);
	struct error err;
	struct args args;
	struct spec_index *x;
	const struct index_spec spec = { .type = slice_from(luaL_checkstring(L, 2)),
					 .options = &args,
					 .user = "exchange 'spec'" };
	struct box *box = push_box(L, INDEX, 1);

	read_args(L, 3, &args);
	int rc = spec_index_create(e, &spec, &x, &err);
	args_deinit(&args);
	if (rc == TIDE_OK)
		box->object = x;
	return answer(L, rc, &err);
}

static int l_index_close(lua_State *L)
{
	struct box *box = luaL_checkudata(L, 1, INDEX);

	spec_index_destroy(box->object);
	box->object = NULL;
	return 0;
}

static int change(lua_State *L,
		  int (*make)(struct spec_index *x, const struct index_binding *b,
			      struct error *err))
{
	struct spec_index *x = unbox(L, INDEX);
	struct error err;
	struct args args;
	const struct index_binding b = { .dest = (uint32_t)luaL_checkinteger(L, 3),
					 .pattern = slice_from(luaL_checkstring(L, 2)),
					 .args = &args };

	read_args(L, 4, &args);
	int rc = make(x, &b, &err);
	args_deinit(&args);
	lua_pushboolean(L, 1);
	return answer(L, rc, &err);
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
	struct spec_index *x = unbox(L, INDEX);
	struct error err;
	const uint32_t *dests;
	size_t count;
	struct script_question q = { spec_msg_read(L, 2), context_of(L) };
	int rc = index_route(x->index, &q, &dests, &count, &err);

	msg_unref((struct msg *)q.msg);
	if (rc != TIDE_OK)
		return answer(L, rc, &err);
	lua_createtable(L, (int)count, 0);
	for (size_t i = 0; i < count; i++) {
		lua_pushinteger(L, dests[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

static int l_index_is_pure(lua_State *L)
{
	lua_pushboolean(L, index_is_pure(((struct spec_index *)unbox(L, INDEX))->index));
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
	lua_newtable(L);
	for (unsigned i = 0; i < p->copies.count; i++) {
		spec_msg_push(L, p->copies.items[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_setfield(L, -2, "copies");
	spec_msg_set_integer(L, "hops", p->hops);
	lua_newtable(L);
	for (size_t i = 0; i < passed->count; i++) {
		lua_pushstring(L, passed->files[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_setfield(L, -2, "passed");
}

/* filter (msg) -> what became of it, with `copies`, `hops` and the files that it has
 * `passed`; the copies do not pass the filters again */
static int l_filter(lua_State *L)
{
	struct engine *e = unbox(L, ENGINE);
	struct passed passed = { .count = 0 };
	struct error err;
	struct filter_pass p = { .msg = spec_msg_read(L, 2),
				 .context = context_of(L),
				 .vhost = slice_from(spec_msg_text(L, 2, "vhost", "/")),
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
	return answer(L, rc, &err);
}

static int l_deliver(lua_State *L)
{
	const struct spec_hook h = { unbox(L, ENGINE), context_of(L),
				     spec_msg_read(L, 2) };
	struct error err;
	int rc = spec_hook_deliver(L, &h, &err);

	msg_unref((struct msg *)h.msg);
	return answer(L, rc, &err);
}

static int l_settled(lua_State *L)
{
	const struct spec_hook h = { unbox(L, ENGINE), context_of(L),
				     spec_msg_read(L, 2) };
	struct error err;
	int rc = spec_hook_settled(L, &h, &err);

	msg_unref((struct msg *)h.msg);
	return answer(L, rc, &err);
}

/* authenticate (login) -> "allow", "deny" or "none"; the user that was made, or the
 * reason, or nil; the script */
static int l_authenticate(lua_State *L)
{
	struct engine *e = unbox(L, ENGINE);
	struct error err;
	int rc = spec_auth_authenticate(L, e, context_of(L), &err);

	return rc == TIDE_OK ? SPEC_AUTH_RESULTS : answer(L, rc, &err);
}

/* authorize (user, action, object) -> the same */
static int l_authorize(lua_State *L)
{
	struct engine *e = unbox(L, ENGINE);
	struct error err;
	int rc = spec_auth_authorize(L, e, context_of(L), &err);

	return rc == TIDE_OK ? SPEC_AUTH_RESULTS : answer(L, rc, &err);
}

/* declare ({ kind =, name =, options = }) -> its options, and the files that changed
 * them, or nil */
static int l_declare(lua_State *L)
{
	struct engine *e = unbox(L, ENGINE);
	struct error err;
	int rc = spec_declare_ask(L, e, context_of(L), &err);

	return rc == TIDE_OK ? SPEC_DECLARE_RESULTS : answer(L, rc, &err);
}

static int l_connect(lua_State *L)
{
	struct engine *e = unbox(L, ENGINE);

	return spec_connect(L, e, context_of(L));
}

static int l_filter_count(lua_State *L)
{
	lua_pushinteger(L, filter_count(unbox(L, ENGINE)));
	return 1;
}

/* dry_run (f) -> f's results; what is asked of the engine in it changes nothing */
static int l_dry_run(lua_State *L)
{
	struct decision_context context = {
		.has_random = true,
		.random_state = engine_random_state(unbox(L, ENGINE)),
		.is_dry = true,
	};
	struct box *box = lua_touserdata(L, 1), outer = *box;

	lua_settop(L, 2);
	box->context = &context;
	int rc = lua_pcall(L, 0, LUA_MULTRET, 0);
	box->context = outer.context;
	return rc == LUA_OK ? lua_gettop(L) - 1 : lua_error(L);
}

static int l_strategy(lua_State *L)
{
	static const char *const kinds[] = { "routing", "sharding", "priority", "retry",
					     NULL };
	struct engine *e = unbox(L, ENGINE);
	struct error err;
	struct args args;
	struct strategy *s;
	enum script_kind kind = (enum script_kind)luaL_checkoption(L, 2, NULL, kinds);
	const char *name = luaL_checkstring(L, 3);
	struct box *box = push_box(L, STRATEGY, 1);

	read_args(L, 4, &args);
	int rc = strategy_create(e,
				 &(struct strategy_spec){ .kind = kind,
							  .name = slice_from(name),
							  .options = &args,
							  .user = "queue 'spec'" },
				 &s, &err);
	args_deinit(&args);
	if (rc == TIDE_OK)
		box->object = s;
	return answer(L, rc, &err);
}

static int l_strategy_close(lua_State *L)
{
	struct box *box = luaL_checkudata(L, 1, STRATEGY);

	strategy_destroy(box->object);
	box->object = NULL;
	return 0;
}

/* The load of a shard from the table at index 4 of the state. */
static uint64_t table_load(const void *ctx, unsigned shard)
{
	lua_State *L = (lua_State *)(uintptr_t)ctx;

	lua_rawgeti(L, 4, shard); /* which raises nothing through the engine */
	uint64_t load = (uint64_t)lua_tointeger(L, -1);
	lua_pop(L, 1);
	return load;
}

/* pick (msg, shards[, { [shard] = load }]) */
static int l_pick(lua_State *L)
{
	struct strategy *s = unbox(L, STRATEGY);
	struct error err;
	lua_Integer shards = luaL_checkinteger(L, 3);
	unsigned shard;

	luaL_argcheck(L, shards >= 1 && shards <= INT_MAX, 3,
		      "the number of shards must be 1 or more");
	lua_settop(L, 4);
	strategy_set_load(s, lua_istable(L, 4) ? table_load : NULL, L);
	struct script_question q = { spec_msg_read(L, 2), context_of(L) };
	int rc = strategy_pick(s, &q, (unsigned)shards, &shard, &err);
	msg_unref((struct msg *)q.msg);
	if (rc == TIDE_OK)
		lua_pushinteger(L, shard);
	return answer(L, rc, &err);
}

/* rank (msg, { served =, ready =, shard = }) */
static int l_rank(lua_State *L)
{
	struct strategy *s = unbox(L, STRATEGY);
	struct error err;
	struct queue_view queue = { .vhost = SLICE("/"), .name = SLICE("spec") };
	double rank;

	if (lua_istable(L, 3)) {
		lua_getfield(L, 3, "served");
		queue.served = luaL_optnumber(L, -1, 0);
		queue.ready = (uint64_t)spec_msg_integer(L, 3, "ready", 0);
		queue.shard = (unsigned)spec_msg_integer(L, 3, "shard", 0);
		queue.name = slice_from(spec_msg_text(L, 3, "name", "spec"));
	}
	struct script_question q = { spec_msg_read(L, 2), context_of(L) };
	int rc = strategy_rank(s, &q, &queue, &rank, &err);
	msg_unref((struct msg *)q.msg);
	if (rc == TIDE_OK)
		lua_pushnumber(L, rank);
	return answer(L, rc, &err);
}

/* decide (msg, { reason =, attempts =, failures = }) -> delay or a name, and a table if
 * the script did more */
static int l_decide(lua_State *L)
{
	struct strategy *s = unbox(L, STRATEGY);
	struct error err;
	struct retry_decision decision;

	luaL_checktype(L, 3, LUA_TTABLE);
	lua_Integer failures = spec_msg_integer(L, 3, "failures", 1);
	struct failure_view failure = {
		.reason = spec_msg_text(L, 3, "reason", "nack"),
		.attempts = (uint32_t)spec_msg_integer(L, 3, "attempts", failures),
		.failures = (uint32_t)failures,
		.has_place = spec_msg_has(L, 2, "offset"),
		.partition = (uint32_t)spec_msg_integer(L, 2, "partition", 0),
		.offset = (uint64_t)spec_msg_integer(L, 2, "offset", 0),
	};
	struct script_question q = { spec_msg_read(L, 2), context_of(L) };
	int rc = strategy_decide(s, &q, &failure, &decision, &err);
	msg_unref((struct msg *)q.msg);
	if (rc == TIDE_OK && decision.action == RETRY_AFTER)
		lua_pushinteger(L, decision.delay_ms);
	else if (rc == TIDE_OK)
		lua_pushstring(L, strategy_action_names[decision.action]);
	if (rc != TIDE_OK || !decision.extra)
		return answer(L, rc, &err);
	spec_retry_push_take(L, decision.extra);
	return 2;
}

/* simulate (name, options, { reason =, failures =, limit =, held = }) -> the
 * document */
static int l_simulate(lua_State *L)
{
	struct engine *e = unbox(L, ENGINE);
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
		.reason = spec_msg_text(L, 4, "reason", "nack"),
		.failures_max = (unsigned)spec_msg_integer(L, 4, "failures", 100),
		.delivery_limit = (uint32_t)spec_msg_integer(L, 4, "limit", 0),
		.held_ms = spec_msg_integer(L, 4, "held", 0),
	};
	read_args(L, 3, &args);
	int rc = simulate_retry(e, &spec, &json, &err);
	args_deinit(&args);
	if (rc == TIDE_OK)
		lua_pushstring(L, buf_cstr(&out));
	buf_deinit(&out);
	return answer(L, rc, &err);
}

static int l_strategy_is_pure(lua_State *L)
{
	lua_pushboolean(L, strategy_is_pure(unbox(L, STRATEGY)));
	return 1;
}

static void new_type(lua_State *L, const char *type, const luaL_Reg *methods,
		     lua_CFunction close)
{
	luaL_newmetatable(L, type);
	lua_newtable(L);
	luaL_setfuncs(L, methods, 0);
	lua_pushcfunction(L, close);
	lua_setfield(L, -2, "close");
	lua_setfield(L, -2, "__index");
	lua_pushcfunction(L, close);
	lua_setfield(L, -2, "__gc");
	lua_pop(L, 1);
}

int spec_module_open(lua_State *L)
{
	static const luaL_Reg functions[] = { { "open", l_open }, { NULL, NULL } };
	static const luaL_Reg engine[] = {
		{ "index", l_index },
		{ "strategy", l_strategy },
		{ "reload", l_reload },
		{ "filter", l_filter },
		{ "filter_count", l_filter_count },
		{ "deliver", l_deliver },
		{ "settled", l_settled },
		{ "authenticate", l_authenticate },
		{ "authorize", l_authorize },
		{ "declare", l_declare },
		{ "connect", l_connect },
		{ "dry_run", l_dry_run },
		{ "seed", l_seed },
		{ "advance", l_advance },
		{ "shared", l_shared },
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
	static const luaL_Reg strategy[] = {
		{ "pick", l_pick },     { "rank", l_rank },
		{ "decide", l_decide }, { "is_pure", l_strategy_is_pure },
		{ NULL, NULL },
	};

	new_type(L, ENGINE, engine, l_engine_close);
	new_type(L, INDEX, index, l_index_close);
	new_type(L, STRATEGY, strategy, l_strategy_close);
	luaL_newlib(L, functions);
	return 1;
}
