/* strategy.c: the scripts of a queue: sharding, priority, retry. */

#include <lauxlib.h>
#include <math.h>
#include <string.h>

#include "base/duration.h"
#include "base/mem.h"
#include "engine_private.h"
#include "rules/api/draft.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"
#include "strategy.h"

const char *const strategy_action_names[] = {
	[RETRY_AFTER] = "retry",
	[RETRY_BURY] = API_TIDE_BURY,
	[RETRY_DEAD_LETTER] = API_TIDE_DEAD_LETTER,
	[RETRY_DROP] = API_TIDE_DROP,
};

struct strategy {
	struct handle handle;
	strategy_load_fn *load;
	const void *load_ctx;
};

int strategy_create(struct engine *e, const struct strategy_spec *spec,
		    struct strategy **out, struct error *err)
{
	struct strategy *s = mem_zalloc(sizeof(*s));
	int rc = handle_open(&s->handle, e, spec, err);

	if (rc != TIDE_OK) {
		mem_free(s);
		return rc;
	}
	*out = s;
	return TIDE_OK;
}

void strategy_destroy(struct strategy *s)
{
	if (!s)
		return;
	handle_close(&s->handle);
	mem_free(s);
}

bool strategy_is_pure(const struct strategy *s)
{
	return handle_use(&s->handle)->is_pure;
}

void strategy_set_load(struct strategy *s, strategy_load_fn *load, const void *ctx)
{
	s->load = load;
	s->load_ctx = ctx;
}

const char *strategy_script(const struct strategy *s)
{
	return handle_use(&s->handle)->rule->file;
}

const char *strategy_last_error(const struct strategy *s)
{
	return handle_use(&s->handle)->rule->stats.last_error;
}

uint64_t strategy_hash(const struct strategy *s)
{
	return handle_use(&s->handle)->rule->hash;
}

bool strategy_differs(const struct engine *e, enum script_kind kind, const char *script,
		      const struct args *has, const struct args *wanted,
		      struct option_difference *out)
{
	const struct options none = { .items = NULL };
	const struct rule *rule =
		e->current ? generation_find(e->current, kind, slice_from(script)) : NULL;

	return options_differ(rule ? &rule->options : &none, has, wanted, out);
}

int strategy_check(const struct engine *e, enum script_kind kind, const char *script,
		   const struct args *options, struct error *err)
{
	char place[SCRIPT_PLACE_MAX];
	struct rule *rule;
	int rc = generation_get(e->current, kind, slice_from(script), &rule, err);

	if (rc < 0)
		return rc;
	snprintf(place, sizeof(place), "%s/%s", script_kind_name(kind), script);
	return options_check(&rule->options, options, place, err);
}

/* `loads(i)`: how much shard i has to do. One function for all calls of a state, so that
 * handing it to a script that does not use it makes no object. */
static const char loads_key; /* of the function in the registry */

struct loads {
	unsigned shards;
	strategy_load_fn *load; /* NULL: every shard has none */
	const void *ctx;
};

/* The function's upvalue. */
struct loads_view {
	const struct loads *loads;
	uint64_t serial; /* of the call that it is good for */
};

/* loads (shard) -> messages that are ready or unacknowledged in it */
static int l_loads(lua_State *L)
{
	struct loads_view *s = lua_touserdata(L, lua_upvalueindex(1));
	lua_Integer shard = luaL_checkinteger(L, 1);

	if (s->serial != script_state_of(L)->serial)
		return luaL_error(L,
				  "'loads' has expired: it was good for one call only");
	script_check_pure(L, "loads");
	if (shard < 0 || shard >= (lua_Integer)s->loads->shards)
		return luaL_error(L, "there is no shard %I; the shards are 0 to %d",
				  (LUAI_UACINT)shard, (int)s->loads->shards - 1);
	uint64_t load =
		s->loads->load ? s->loads->load(s->loads->ctx, (unsigned)shard) : 0;
	lua_pushinteger(L, (lua_Integer)load);
	return 1;
}

void strategy_open(lua_State *L)
{
	struct loads_view *s = lua_newuserdatauv(L, sizeof(*s), 0);

	*s = (struct loads_view){ .loads = NULL };
	lua_pushcclosure(L, l_loads, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &loads_key);
}

/* The function, which from here on speaks of what is given: the loads of the call under
 * way. */
static void push_loads(lua_State *L, const void *ctx)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &loads_key);
	lua_getupvalue(L, -1, 1);
	struct loads_view *s = lua_touserdata(L, -1);
	lua_pop(L, 1);
	s->loads = ctx;
	s->serial = script_state_of(L)->serial;
}

static void push_shards(lua_State *L, const void *ctx)
{
	lua_pushinteger(L, ((const struct loads *)ctx)->shards);
}

/* The result, by the kind. */
struct deciding {
	unsigned shards, shard;
	double rank;
	struct retry_decision retry;
};

static void take_shard(lua_State *L, const struct use_call *c, unsigned result)
{
	struct deciding *d = c->ctx;
	int is_integer = 0;
	lua_Integer shards = d->shards, picked = lua_tointegerx(L, -1, &is_integer);

	if (!is_integer)
		use_refuse_result(L, c);
	lua_Integer shard = picked % shards;
	d->shard = (unsigned)(shard < 0 ? shard + shards : shard);
}

static void take_rank(lua_State *L, const struct use_call *c, unsigned result)
{
	struct deciding *d = c->ctx;

	d->rank = lua_tonumber(L, -1);
	if (!isfinite(d->rank))
		use_refuse_result(L, c);
}

static bool is_action(lua_State *L, struct deciding *d)
{
	int action = RETRY_BURY;

	while (action <= RETRY_DROP &&
	       strcmp(lua_tostring(L, -1), strategy_action_names[action]) != 0)
		action++;
	d->retry.action = (enum retry_action)action;
	return action <= RETRY_DROP;
}

void strategy_extra_unref(struct retry_extra *x)
{
	if (!x || --x->refs > 0)
		return;
	for (unsigned i = 0; i < x->copies.count; i++)
		msg_unref(x->copies.items[i]);
	msg_unref(x->msg);
	mem_free(x->exchange);
	mem_free(x->key);
	mem_free(x);
}

struct retry_extra *strategy_extra_clone(const struct retry_extra *x)
{
	if (!x)
		return NULL;
	struct retry_extra *clone = mem_zalloc(sizeof(*clone));
	*clone = *x;
	clone->refs = 1;
	clone->msg = x->msg ? msg_ref(x->msg) : NULL;
	clone->exchange = x->exchange ? mem_strdup(x->exchange) : NULL;
	clone->key = x->key ? mem_strdup(x->key) : NULL;
	for (unsigned i = 0; i < x->copies.count; i++)
		msg_ref(x->copies.items[i]);
	return clone;
}

static void write_address(struct slice exchange, struct slice key, struct json *out)
{
	json_member_string(out, "exchange", exchange.len ? exchange : SLICE("-"));
	if (key.data)
		json_member_string(out, "key", key);
}

void strategy_write_extra(const struct retry_extra *x, struct json *out)
{
	if (x->exchange) {
		json_member_object(out, "target");
		write_address(slice_from(x->exchange),
			      x->key ? slice_from(x->key) : (struct slice){ 0 }, out);
		json_object_end(out);
	}
	if (x->msg)
		json_member_bool(out, "wrote_headers", true);
	if (x->copies.count == 0)
		return;
	json_member_array(out, "copies");
	for (unsigned i = 0; i < x->copies.count; i++) {
		json_object_begin(out);
		write_address(x->copies.items[i]->exchange, x->copies.items[i]->key, out);
		json_object_end(out);
	}
	json_array_end(out);
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Headers that were written in the same order. */
static bool is_same_msg(const struct msg *a, const struct msg *b)
{
	if (!a || !b)
		return a == b;
	if (!slice_is_equal(a->exchange, b->exchange) ||
	    !slice_is_equal(a->key, b->key) || a->header_count != b->header_count ||
	    a->priority != b->priority || a->payload_len != b->payload_len ||
	    memcmp(a->payload, b->payload, a->payload_len) != 0)
		return false;
	for (unsigned i = 0; i < a->header_count; i++)
		if (!slice_is_equal(a->headers[i].name, b->headers[i].name) ||
		    !slice_is_equal(a->headers[i].value, b->headers[i].value))
			return false;
	return true;
}

bool strategy_is_same_extra(const struct retry_extra *a, const struct retry_extra *b)
{
	if (!a || !b)
		return a == b;
	if (!is_same_text(a->exchange, b->exchange) || !is_same_text(a->key, b->key) ||
	    !is_same_msg(a->msg, b->msg) || a->copies.count != b->copies.count)
		return false;
	for (unsigned i = 0; i < a->copies.count; i++)
		if (!is_same_msg(a->copies.items[i], b->copies.items[i]))
			return false;
	return true;
}

static struct retry_extra *extra_of(struct deciding *d)
{
	if (!d->retry.extra) {
		d->retry.extra = mem_zalloc(sizeof(*d->retry.extra));
		d->retry.extra->refs = 1;
	}
	return d->retry.extra;
}

/* An address of the target on the top; '-' is the empty one. */
static char *read_target(lua_State *L, const char *name)
{
	struct slice text;

	if (lua_getfield(L, -1, name) == LUA_TNIL && strcmp(name, "key") == 0) {
		lua_pop(L, 1);
		return NULL;
	}
	text = lua_type(L, -1) == LUA_TSTRING ? field_slice(L, -1) : (struct slice){ 0 };
	if (!slice_is_name(text))
		luaL_error(L,
			   "decide returned a table with a wrong '%s': 1 to %d bytes of "
			   "UTF-8 without white space; tide.dead_letter(exchange, key) "
			   "makes it",
			   name, NAME_LEN_MAX);
	char *own =
		slice_is(text, "-") ? mem_strdup("") : mem_strndup(text.data, text.len);
	lua_pop(L, 1);
	return own;
}

/* The table on the top: tide.dead_letter (exchange, key). */
static void take_target(lua_State *L, struct deciding *d)
{
	static const char *const names[] = { "exchange", "key", NULL };

	read_only_see_through(L, lua_gettop(L));
	field_check_names(L, -1, "the table that decide returned", names);
	d->retry.action = RETRY_DEAD_LETTER;
	extra_of(d)->exchange = read_target(L, "exchange");
	extra_of(d)->key = read_target(L, "key");
}

static void take_action(lua_State *L, const struct use_call *c, unsigned result)
{
	struct deciding *d = c->ctx;

	if (result == RESULT_TABLE) {
		take_target(L, d);
		return;
	}
	if (result == RESULT_TEXT) {
		if (!is_action(L, d))
			use_refuse_result(L, c);
		return;
	}
	double delay_ms = lua_tonumber(L, -1);
	if (!(delay_ms >= 0) || !isfinite(delay_ms))
		use_refuse_result(L, c);
	/* Ten years at most, also where a script doubles for ever. */
	d->retry.action = RETRY_AFTER;
	d->retry.delay_ms =
		delay_ms < (double)DURATION_MAX_MS ? llround(delay_ms) : DURATION_MAX_MS;
}

static int ask_strategy(struct strategy *s, struct use_call *call, struct error *err)
{
	if (s->handle.engine->former)
		carry_use(&s->handle);
	call->use = handle_use(&s->handle);
	call->handle = &s->handle;
	call->is_pure = call->use->is_pure && call->take != take_action;
	return use_decide(s->handle.engine, call, err);
}

int strategy_pick(struct strategy *s, const struct script_question *q, unsigned shards,
		  unsigned *shard, struct error *err)
{
	const struct loads loads = { shards, s->load, s->load_ctx };
	const struct script_value of_n = { push_shards, &loads },
				  of_loads = { push_loads, &loads };
	const struct api_msg msg = { .msg = q->msg };
	struct deciding d = { .shards = shards };
	struct use_call call = { .context = q->context,
				 .given = { &msg, &of_n, NULL, NULL, &of_loads },
				 .take = take_shard,
				 .ctx = &d };
	int rc = ask_strategy(s, &call, err);

	if (rc == TIDE_OK)
		*shard = d.shard;
	return rc;
}

int strategy_rank(struct strategy *s, const struct script_question *q,
		  const struct queue_view *queue, double *rank, struct error *err)
{
	const struct api_msg msg = { .msg = q->msg };
	struct deciding d = { .rank = 0 };
	struct use_call call = { .context = q->context,
				 .given = { &msg, queue },
				 .take = take_rank,
				 .ctx = &d };
	int rc = ask_strategy(s, &call, err);

	if (rc == TIDE_OK)
		*rank = d.rank;
	return rc;
}

static int64_t now_of(const struct strategy *s, const struct script_question *q)
{
	return q->context && q->context->now_ms ? q->context->now_ms
						: engine_now_ms(s->handle.engine);
}

/* Keep what was written. */
static int take_written(struct deciding *d, const struct draft *draft, struct error *err)
{
	if (draft->is_changed) {
		extra_of(d)->msg = draft_build(draft);
		if (!d->retry.extra->msg)
			return error_set(err, TIDE_EBUSY,
					 "out of memory for the changed message");
	}
	if (draft->copies->count > 0)
		extra_of(d)->copies = *draft->copies;
	return TIDE_OK;
}

int strategy_decide(struct strategy *s, const struct script_question *q,
		    const struct failure_view *failure, struct retry_decision *decision,
		    struct error *err)
{
	struct draft draft;
	struct draft_copies copies;
	struct deciding d = { .shard = 0 };
	struct use_call call = { .context = q->context,
				 .given = { &draft, failure },
				 .take = take_action,
				 .ctx = &d };

	copies.count = 0;
	copies.max = DRAFT_COPIES_MAX;
	draft_init(&draft, q->msg, now_of(s, q), &copies);
	draft.use = DRAFT_RETRY;
	draft.vhost = slice_from(s->handle.vhost);
	draft.view.attempt = failure->attempts;
	draft.view.has_place = failure->has_place;
	draft.view.partition = failure->partition;
	draft.view.offset = failure->offset;
	int rc = ask_strategy(s, &call, err);
	if (rc == TIDE_OK)
		rc = take_written(&d, &draft, err);
	draft_deinit(&draft);
	if (rc == TIDE_OK) {
		*decision = d.retry;
		return rc;
	}
	for (unsigned i = 0; i < copies.count; i++)
		msg_unref(copies.items[i]);
	strategy_extra_unref(d.retry.extra);
	return rc;
}
