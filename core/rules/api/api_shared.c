#include <lauxlib.h>
#include <math.h>
#include <string.h>

#include "base/duration.h"
#include "api_tide.h"
#include "decision_context.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"
#include "shared.h"

static struct api_tide *self(lua_State *L)
{
	return lua_touserdata(L, lua_upvalueindex(1));
}

static struct shared *shared_of(lua_State *L)
{
	const struct decision_context *c = decision_context_of(L);

	return c && c->shared ? c->shared : self(L)->shared;
}

static struct slice check_key(lua_State *L, int arg)
{
	luaL_checkstring(L, arg);
	struct slice key = field_slice(L, arg);
	luaL_argcheck(L, key.len >= 1 && key.len <= SHARED_KEY_MAX, arg,
		      "a key must have 1 to 256 bytes");
	return key;
}

/* Milliseconds, or the text of a duration; 0 when there is none. */
static int64_t check_duration(lua_State *L, int arg)
{
	int64_t ms = 0;

	if (lua_isnoneornil(L, arg))
		return 0;
	if (lua_type(L, arg) == LUA_TSTRING) {
		int rc = duration_parse(slice_from(lua_tostring(L, arg)), &ms);
		luaL_argcheck(L, rc == TIDE_OK, arg,
			      "a duration is written 250ms, 30s, 5m, 2h, 1d");
	} else {
		double given = luaL_checknumber(L, arg);
		luaL_argcheck(L, given >= 1 && given <= (double)DURATION_MAX_MS, arg,
			      "a duration must be at least 1 millisecond");
		ms = (int64_t)given;
	}
	luaL_argcheck(L, ms > 0, arg, "a duration must be at least 1 millisecond");
	return ms;
}

static void check_value(lua_State *L, int arg, struct shared_value *out)
{
	switch (lua_type(L, arg)) {
	case LUA_TSTRING:
		*out = (struct shared_value){ .type = SHARED_TEXT,
					      .text = field_slice(L, arg) };
		luaL_argcheck(L, out->text.len <= SHARED_TEXT_MAX, arg,
			      "a text has at most 65536 bytes here");
		break;
	case LUA_TNUMBER:
		if (lua_isinteger(L, arg))
			*out = (struct shared_value){ .type = SHARED_INTEGER,
						      .integer = lua_tointeger(L, arg) };
		else
			*out = (struct shared_value){ .type = SHARED_NUMBER,
						      .number = lua_tonumber(L, arg) };
		break;
	case LUA_TBOOLEAN:
		*out = (struct shared_value){ .type = SHARED_BOOLEAN,
					      .boolean = lua_toboolean(L, arg) };
		break;
	default:
		luaL_argerror(L, arg, "a value must be a text, a number or a boolean");
	}
}

static void push_value(lua_State *L, const struct shared_value *v)
{
	switch (v->type) {
	case SHARED_TEXT:
		field_push(L, v->text);
		break;
	case SHARED_INTEGER:
		lua_pushinteger(L, v->integer);
		break;
	case SHARED_NUMBER:
		lua_pushnumber(L, v->number);
		break;
	case SHARED_BOOLEAN:
		lua_pushboolean(L, v->boolean);
		break;
	}
}

static struct shared_op make_op(lua_State *L, enum shared_space space, struct slice key)
{
	script_check_pure(L, "tide.shared, a counter or a bucket");
	const struct account *payer = script_state_of(L)->account;

	return (struct shared_op){ .file = payer->file,
				   .vhost = payer->vhost,
				   .space = space,
				   .key = key,
				   .now_ms = api_tide_call_ms(L, self(L)) };
}

/* An operation that is about to change something. */
static void allow_change(lua_State *L, struct shared_op *op)
{
	if (script_state_of(L)->is_loading)
		luaL_error(L, "tide.shared cannot be changed while files are loaded");
	op->is_dry = decision_context_is_dry(L);
}

/* The key is argument 1. */
static struct shared_op change_op(lua_State *L, int ttl_arg)
{
	struct shared_op op = make_op(L, SHARED_KEYS, check_key(L, 1));
	int64_t ttl_ms = ttl_arg ? check_duration(L, ttl_arg) : 0;

	allow_change(L, &op);
	op.expires_unix_ms = ttl_ms ? op.now_ms + ttl_ms : 0;
	return op;
}

static int raise_error(lua_State *L, const struct error *err)
{
	return luaL_error(L, "%s", err->text);
}

/* get (key) -> value or nil */
static int l_get(lua_State *L)
{
	struct shared_value value;
	struct shared_op op = make_op(L, SHARED_KEYS, check_key(L, 1));

	if (shared_get(shared_of(L), &op, &value) != TIDE_OK)
		return 0;
	push_value(L, &value);
	return 1;
}

/* set (key, value [, ttl]) */
static int l_set(lua_State *L)
{
	struct shared_value value;
	struct error err;

	check_value(L, 2, &value);
	struct shared_op op = change_op(L, 3);
	if (shared_set(shared_of(L), &op, &value, &err) != TIDE_OK)
		return raise_error(L, &err);
	return 0;
}

/* add (key, value [, ttl]) -> whether it was not there */
static int l_add(lua_State *L)
{
	struct shared_value value;
	struct error err;

	check_value(L, 2, &value);
	struct shared_op op = change_op(L, 3);
	int rc = shared_add(shared_of(L), &op, &value, &err);
	if (rc != TIDE_OK && rc != TIDE_EEXISTS)
		return raise_error(L, &err);
	lua_pushboolean(L, rc == TIDE_OK);
	return 1;
}

static int add_number(lua_State *L, const struct shared_op *op, int arg)
{
	struct shared_value by = { .type = SHARED_INTEGER, .integer = 1 }, sum;
	struct error err;

	if (!lua_isnoneornil(L, arg)) {
		luaL_checktype(L, arg, LUA_TNUMBER);
		check_value(L, arg, &by);
	}
	if (shared_incr(shared_of(L), op, &by, &sum, &err) != TIDE_OK)
		return raise_error(L, &err);
	push_value(L, &sum);
	return 1;
}

/* incr (key [, by [, ttl]]) -> the new value */
static int l_incr(lua_State *L)
{
	struct shared_op op = change_op(L, 3);

	return add_number(L, &op, 2);
}

/* delete (key) -> whether it was there */
static int l_delete(lua_State *L)
{
	struct shared_op op = change_op(L, 0);

	lua_pushboolean(L, shared_remove(shared_of(L), &op));
	return 1;
}

/* A counter or a bucket. The upvalues of its functions: the api_tide, the metatable. */
struct named {
	double interval_ms;  /* a bucket's: between two tokens */
	double tolerance_ms; /* a bucket's: what it holds, as time */
	double burst;
	size_t len;
	char name[];
};

/* counter (name) */
static int l_named(lua_State *L)
{
	struct slice name = check_key(L, 1);
	struct named *n = lua_newuserdatauv(L, sizeof(*n) + name.len, 0);

	*n = (struct named){ .len = name.len };
	memcpy(n->name, name.data, name.len);
	lua_pushvalue(L, lua_upvalueindex(2));
	lua_setmetatable(L, -2);
	return 1;
}

/* The methods' metatable is their second upvalue too. */
static const struct named *check_named(lua_State *L)
{
	const struct named *n = lua_touserdata(L, 1);

	if (n && lua_getmetatable(L, 1) && lua_rawequal(L, -1, lua_upvalueindex(2))) {
		lua_pop(L, 1);
		return n;
	}
	lua_getfield(L, lua_upvalueindex(2), "__name");
	luaL_error(L, "call this as a method of a %s, with ':'", lua_tostring(L, -1));
	return NULL;
}

static struct shared_op named_op(lua_State *L, const struct named *n,
				 enum shared_space space)
{
	return make_op(L, space, (struct slice){ n->name, n->len });
}

/* counter:incr ([by]) -> the new value */
static int l_counter_incr(lua_State *L)
{
	struct shared_op op = named_op(L, check_named(L), SHARED_COUNTERS);

	allow_change(L, &op);
	return add_number(L, &op, 2);
}

/* counter:get () -> value */
static int l_counter_get(lua_State *L)
{
	struct shared_op op = named_op(L, check_named(L), SHARED_COUNTERS);
	struct shared_value value;

	if (shared_get(shared_of(L), &op, &value) != TIDE_OK)
		value = (struct shared_value){ .type = SHARED_INTEGER };
	push_value(L, &value);
	return 1;
}

/* Tokens a second: a number, or "100/s", "600/m", "5/10s". */
static double read_rate(lua_State *L, int idx)
{
	static const char wanted[] =
		"'rate' is a number of tokens a second above 0, or a "
		"text like \"100/s\", \"600/m\", \"5/10s\"";
	double rate = 0;

	if (lua_type(L, idx) == LUA_TNUMBER) {
		rate = lua_tonumber(L, idx);
	} else if (lua_type(L, idx) == LUA_TSTRING) {
		const char *text = lua_tostring(L, idx);
		const char *slash = strchr(text, '/');
		uint64_t tokens;
		int64_t ms = 0;
		if (!slash ||
		    !slice_to_uint((struct slice){ text, (size_t)(slash - text) },
				   1000000000, &tokens))
			luaL_error(L, wanted);
		bool has_number = slash[1] >= '0' && slash[1] <= '9';
		lua_pushfstring(L, "%s%s", has_number ? "" : "1", slash + 1);
		if (duration_parse(slice_from(lua_tostring(L, -1)), &ms) != TIDE_OK ||
		    ms == 0)
			luaL_error(L, wanted);
		lua_pop(L, 1);
		rate = (double)tokens * 1000 / (double)ms;
	}
	if (!(rate > 0) || !isfinite(rate) || rate > 1e9)
		luaL_error(L, wanted);
	return rate;
}

/* bucket (name, { rate = tokens a second, burst = tokens it holds }) */
static int l_bucket(lua_State *L)
{
	static const char *const fields[] = { "rate", "burst", NULL };

	lua_settop(L, 2);
	luaL_checktype(L, 2, LUA_TTABLE);
	field_check_names(L, 2, "a bucket", fields);
	lua_getfield(L, 2, "rate");
	lua_getfield(L, 2, "burst");
	double rate = read_rate(L, 3);
	double burst = luaL_optnumber(L, 4, rate > 1 ? ceil(rate) : 1);
	if (!(burst >= 1 && burst <= 1e9))
		luaL_error(L, "'burst' is how many tokens the bucket holds: 1 or more");
	l_named(L);
	struct named *n = lua_touserdata(L, -1);
	n->interval_ms = 1000 / rate;
	n->burst = burst;
	n->tolerance_ms = burst * n->interval_ms;
	return 1;
}

/* When the bucket will be full again. The clock may have been set back: it is never
 * further away than that of a bucket that is empty, and as far ahead as may be. */
static double full_at(lua_State *L, const struct named *n, const struct shared_op *op,
		      double ahead_ms)
{
	struct shared_value value;
	double now = (double)op->now_ms;

	if (shared_get(shared_of(L), op, &value) != TIDE_OK ||
	    value.type != SHARED_NUMBER)
		return now;
	return fmin(fmax(value.number, now), now + n->tolerance_ms + ahead_ms);
}

static double check_tokens(lua_State *L, const struct named *n)
{
	double tokens = luaL_optnumber(L, 2, 1);

	luaL_argcheck(L, tokens >= 0, 2, "a number of tokens must not be negative");
	if (!(tokens <= n->burst))
		luaL_error(L, "the bucket never holds that many tokens");
	return tokens;
}

/* Take tokens that the bucket will have within `ahead_ms`. The milliseconds until it
 * has them, 0 for now; those that are too many are negative, and nothing is taken. */
static int64_t take_ahead(lua_State *L, const struct named *n, double tokens,
			  double ahead_ms)
{
	struct shared_op op = named_op(L, n, SHARED_BUCKETS);
	struct shared_value full = { .type = SHARED_NUMBER };
	struct error err;

	allow_change(L, &op);
	full.number = full_at(L, n, &op, ahead_ms) + tokens * n->interval_ms;
	double over_ms = full.number - (double)op.now_ms - n->tolerance_ms;
	/* Sums of fractions come out a hair's breadth over. */
	if (over_ms <= 1e-3)
		over_ms = 0;
	if (over_ms > ahead_ms)
		return -(int64_t)ceil(over_ms);
	op.expires_unix_ms = (int64_t)ceil(full.number);
	if (tokens > 0 && shared_set(shared_of(L), &op, &full, &err) != TIDE_OK)
		raise_error(L, &err);
	return (int64_t)ceil(over_ms);
}

/* bucket:take ([n]) -> true, or false and the milliseconds to wait */
static int l_take(lua_State *L)
{
	const struct named *n = check_named(L);
	int64_t wait_ms = take_ahead(L, n, check_tokens(L, n), 0);

	lua_pushboolean(L, wait_ms == 0);
	if (wait_ms == 0)
		return 1;
	lua_pushinteger(L, -wait_ms);
	return 2;
}

/* bucket:reserve (n, longest wait) -> the milliseconds until the n tokens are there,
 * which are taken; or false and the milliseconds that it would be */
static int l_reserve(lua_State *L)
{
	const struct named *n = check_named(L);
	double tokens = check_tokens(L, n);
	int64_t ahead_ms = check_duration(L, 3);

	luaL_argcheck(L, ahead_ms > 0, 3, "the longest wait must be a duration above 0");
	int64_t wait_ms = take_ahead(L, n, tokens, (double)ahead_ms);
	if (wait_ms >= 0) {
		lua_pushinteger(L, wait_ms);
		return 1;
	}
	lua_pushboolean(L, 0);
	lua_pushinteger(L, -wait_ms);
	return 2;
}

/* tide.<type> = a function that makes one; the table `tide` is on the top. */
static void add_named(lua_State *L, struct api_tide *t, const char *type,
		      lua_CFunction create, const luaL_Reg *methods)
{
	lua_newtable(L); /* the metatable */
	lua_newtable(L);
	lua_pushlightuserdata(L, t);
	lua_pushvalue(L, -3);
	luaL_setfuncs(L, methods, 2);
	read_only_protect(L);
	lua_setfield(L, -2, "__index");
	lua_pushstring(L, type);
	lua_setfield(L, -2, "__name");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_pushlightuserdata(L, t);
	lua_insert(L, -2);
	lua_pushcclosure(L, create, 2);
	lua_setfield(L, -2, type);
}

void api_shared_add(lua_State *L, struct api_tide *t)
{
	static const luaL_Reg shared[] = {
		{ "add", l_add },   { "delete", l_delete }, { "get", l_get },
		{ "incr", l_incr }, { "set", l_set },       { NULL, NULL },
	};
	static const luaL_Reg counter[] = { { "get", l_counter_get },
					    { "incr", l_counter_incr },
					    { NULL, NULL } };
	static const luaL_Reg bucket[] = { { "reserve", l_reserve },
					   { "take", l_take },
					   { NULL, NULL } };

	lua_newtable(L);
	lua_pushlightuserdata(L, t);
	luaL_setfuncs(L, shared, 1);
	read_only_protect(L);
	lua_setfield(L, -2, "shared");
	add_named(L, t, "counter", l_named, counter);
	add_named(L, t, "bucket", l_bucket, bucket);
}
