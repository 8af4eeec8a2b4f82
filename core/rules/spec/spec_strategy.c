#include "spec_strategy.h"

#include <lauxlib.h>
#include <limits.h>
#include <string.h>

#include "rules/engine/strategy.h"
#include "rules/sandbox/field.h"
#include "spec_box.h"
#include "spec_field.h"
#include "spec_msg.h"

#define STRATEGY "luatide.strategy"

/* The kind at index 2, one of `names`. */
static enum script_kind check_kind(lua_State *L, const char *const *names)
{
	const char *name = luaL_checkstring(L, 2);

	for (int i = 0; names[i]; i++)
		if (strcmp(name, names[i]) == 0)
			return (enum script_kind)i;
	luaL_error(L, "there are no strategies '%s'; there are: sharding priority retry",
		   name);
	return SCRIPT_RETRY;
}

int spec_strategy_create(lua_State *L)
{
	static const char *const kinds[] = { "routing", "sharding", "priority", "retry",
					     NULL };
	struct engine *e = spec_box_check(L, SPEC_BOX_ENGINE);
	struct error err;
	struct args args;
	struct strategy *s;
	enum script_kind kind = check_kind(L, kinds);
	const char *name = luaL_checkstring(L, 3);
	struct spec_box *box = spec_box_push(L, STRATEGY, 1);

	spec_box_args(L, 4, &args);
	int rc = strategy_create(e,
				 &(struct strategy_spec){ .kind = kind,
							  .name = slice_from(name),
							  .options = &args,
							  .user = "queue 'spec'" },
				 &s, &err);
	args_deinit(&args);
	if (rc == TIDE_OK)
		box->object = s;
	return spec_box_answer(L, rc, &err);
}

static int l_strategy_close(lua_State *L)
{
	struct spec_box *box = luaL_checkudata(L, 1, STRATEGY);

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
	struct strategy *s = spec_box_check(L, STRATEGY);
	struct error err;
	lua_Integer shards = luaL_checkinteger(L, 3);
	unsigned shard;

	luaL_argcheck(L, shards >= 1 && shards <= INT_MAX, 3,
		      "the number of shards must be 1 or more");
	lua_settop(L, 4);
	strategy_set_load(s, lua_istable(L, 4) ? table_load : NULL, L);
	struct script_question q = { spec_msg_read(L, 2), spec_box_context(L) };
	int rc = strategy_pick(s, &q, (unsigned)shards, &shard, &err);
	msg_unref((struct msg *)q.msg);
	if (rc == TIDE_OK)
		lua_pushinteger(L, shard);
	return spec_box_answer(L, rc, &err);
}

/* rank (msg, { served =, ready =, shard = }) */
static int l_rank(lua_State *L)
{
	struct strategy *s = spec_box_check(L, STRATEGY);
	struct error err;
	struct queue_view queue = { .vhost = SLICE("/"), .name = SLICE("spec") };
	double rank;

	if (lua_istable(L, 3)) {
		lua_getfield(L, 3, "served");
		queue.served = luaL_optnumber(L, -1, 0);
		queue.ready = (uint64_t)spec_field_integer(L, 3, "ready", 0);
		queue.shard = (unsigned)spec_field_integer(L, 3, "shard", 0);
		queue.name = spec_field_slice(L, 3, "name", "spec");
	}
	struct script_question q = { spec_msg_read(L, 2), spec_box_context(L) };
	int rc = strategy_rank(s, &q, &queue, &rank, &err);
	msg_unref((struct msg *)q.msg);
	if (rc == TIDE_OK)
		lua_pushnumber(L, rank);
	return spec_box_answer(L, rc, &err);
}

/* Push the extra deeds of a script, as a table. Takes the reference. */
static void push_extra_take(lua_State *L, struct retry_extra *extra)
{
	lua_newtable(L);
	if (extra->exchange)
		spec_field_set_text(L, "exchange",
				    extra->exchange[0] ? extra->exchange : "-");
	spec_field_set_text(L, "key", extra->key);
	if (extra->msg) {
		spec_msg_push(L, extra->msg);
		lua_setfield(L, -2, "msg");
	}
	spec_msg_set_list(L, "copies", extra->copies.items, extra->copies.count);
	strategy_extra_unref(extra);
}

/* decide (msg, { reason =, attempts =, deliveries =, failures =, reason_text = }) ->
 * delay or a name, and a table if the script did more */
static int l_decide(lua_State *L)
{
	static const char *const names[] = { "reason",   "attempts",    "deliveries",
					     "failures", "reason_text", NULL };
	struct strategy *s = spec_box_check(L, STRATEGY);
	struct error err;
	struct retry_decision decision;

	luaL_checktype(L, 3, LUA_TTABLE);
	field_check_names(L, 3, "a failure", names);
	lua_Integer failures = spec_field_integer(L, 3, "failures", 1);
	struct failure_view failure = {
		.reason = spec_field_text(L, 3, "reason", "nack"),
		.reason_text = slice_from(spec_field_text(L, 3, "reason_text", "")),
		.attempts = (uint32_t)spec_field_integer(L, 3, "attempts", failures),
		.deliveries = (uint32_t)spec_field_integer(L, 3, "deliveries", failures),
		.failures = (uint32_t)failures,
		.has_place = spec_field_is_there(L, 2, "offset"),
		.partition = (uint32_t)spec_field_integer(L, 2, "partition", 0),
		.offset = (uint64_t)spec_field_integer(L, 2, "offset", 0),
	};
	struct script_question q = { spec_msg_read(L, 2), spec_box_context(L) };
	int rc = strategy_decide(s, &q, &failure, &decision, &err);
	msg_unref((struct msg *)q.msg);
	if (rc == TIDE_OK && decision.action == RETRY_AFTER)
		lua_pushinteger(L, decision.delay_ms);
	else if (rc == TIDE_OK)
		lua_pushstring(L, strategy_action_names[decision.action]);
	if (rc != TIDE_OK || !decision.extra)
		return spec_box_answer(L, rc, &err);
	push_extra_take(L, decision.extra);
	return 2;
}

static int l_strategy_is_pure(lua_State *L)
{
	lua_pushboolean(L, strategy_is_pure(spec_box_check(L, STRATEGY)));
	return 1;
}

void spec_strategy_open(lua_State *L)
{
	static const luaL_Reg strategy[] = {
		{ "pick", l_pick },     { "rank", l_rank },
		{ "decide", l_decide }, { "is_pure", l_strategy_is_pure },
		{ NULL, NULL },
	};

	spec_box_type(L, STRATEGY, strategy, l_strategy_close);
}
