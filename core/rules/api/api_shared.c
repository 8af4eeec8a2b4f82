/* api_shared.c: tide.shared, tide.bucket, and the metrics of scripts: tide.counter,
 * tide.gauge and tide.histogram. */
#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api_tide.h"
#include "base/duration.h"
#include "decision_context.h"
#include "meters.h"
#include "shared.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"
#include "rules/sandbox/safe_lib.h"

static struct api_tide *self(lua_State *L)
{
	return lua_touserdata(L, lua_upvalueindex(1));
}

/* The dictionary of the call under way. */
static struct shared *dictionary_of(lua_State *L)
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

/* An operation that the script of the call under way pays for, without a time. */
static struct shared_op begin_op(lua_State *L, enum shared_space space, struct slice key)
{
	script_check_pure(L, "tide.shared, a metric or a bucket");
	const struct account *payer = script_state_of(L)->account;

	return (struct shared_op){
		.file = payer->file, .vhost = payer->vhost, .space = space, .key = key
	};
}

static struct shared_op make_op(lua_State *L, enum shared_space space, struct slice key)
{
	struct shared_op op = begin_op(L, space, key);

	op.now_ms = api_tide_call_ms(L, self(L));
	return op;
}

/* The operation is about to change something. */
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

/* Push the value; nil: there is none. */
static void push_current(lua_State *L, const struct shared_op *op)
{
	struct shared_value value;

	if (shared_get(dictionary_of(L), op, &value) == TIDE_OK)
		push_value(L, &value);
	else
		lua_pushnil(L);
}

/* get (key) -> value or nil */
static int l_get(lua_State *L)
{
	struct shared_op op = make_op(L, SHARED_KEYS, check_key(L, 1));

	push_current(L, &op);
	return !lua_isnil(L, -1);
}

/* set (key, value [, ttl]) */
static int l_set(lua_State *L)
{
	struct shared_value value;
	struct error err;

	check_value(L, 2, &value);
	struct shared_op op = change_op(L, 3);
	if (shared_set(dictionary_of(L), &op, &value, &err) != TIDE_OK)
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
	int rc = shared_add(dictionary_of(L), &op, &value, &err);
	if (rc != TIDE_OK && rc != TIDE_EEXISTS)
		return raise_error(L, &err);
	lua_pushboolean(L, rc == TIDE_OK);
	return 1;
}

/* A number, 1 when left out. */
static void check_number(lua_State *L, int arg, struct shared_value *out)
{
	*out = (struct shared_value){ .type = SHARED_INTEGER, .integer = 1 };
	if (lua_isnoneornil(L, arg))
		return;
	luaL_checktype(L, arg, LUA_TNUMBER);
	check_value(L, arg, out);
}

enum { BY = 2, TTL, MIN, MAX };

/* Arguments 2 to 5 become those, which may stand in a table. */
static void spread_options(lua_State *L)
{
	static const char *const fields[] = { "by", "ttl", "min", "max", NULL };

	lua_settop(L, TTL);
	if (lua_istable(L, BY)) {
		luaL_argcheck(L, lua_isnil(L, TTL), TTL, "'ttl' belongs into the table");
		field_check_names(L, BY, "incr", fields);
		for (int i = 0; fields[i]; i++)
			lua_getfield(L, BY, fields[i]);
		lua_remove(L, BY);
		lua_remove(L, BY);
	}
	lua_settop(L, MAX);
	for (int i = MIN; i <= MAX; i++)
		if (!lua_isnil(L, i))
			luaL_checktype(L, i, LUA_TNUMBER);
}

/* Would the sum leave the bounds? */
static bool is_out(lua_State *L, const struct shared_op *op,
		   const struct shared_value *by)
{
	struct shared_op dry = *op;
	struct shared_value sum;
	struct error err;

	if (lua_isnil(L, MIN) && lua_isnil(L, MAX))
		return false;
	dry.is_dry = true;
	if (shared_incr(dictionary_of(L), &dry, by, &sum, &err) != TIDE_OK)
		raise_error(L, &err);
	push_value(L, &sum);
	bool is = (!lua_isnil(L, MIN) && lua_compare(L, -1, MIN, LUA_OPLT)) ||
		  (!lua_isnil(L, MAX) && lua_compare(L, MAX, -1, LUA_OPLT));
	lua_pop(L, 1);
	return is;
}

/* incr (key [, by [, ttl]]), incr (key, { by =, ttl =, min =, max = }) -> the new value;
 * or false and what is there, if the new one would be out of bounds */
static int l_incr(lua_State *L)
{
	struct shared_value by, sum;
	struct error err;

	spread_options(L);
	check_number(L, BY, &by);
	struct shared_op op = change_op(L, TTL);
	if (is_out(L, &op, &by)) {
		lua_pushboolean(L, 0);
		push_current(L, &op);
		return 2;
	}
	if (shared_incr(dictionary_of(L), &op, &by, &sum, &err) != TIDE_OK)
		return raise_error(L, &err);
	push_value(L, &sum);
	return 1;
}

/* cas (key, expected, value [, ttl]) -> true; or false and what is there. nil stands for
 * no entry */
static int l_cas(lua_State *L)
{
	struct shared_value value;
	struct error err;

	lua_settop(L, 4);
	if (!lua_isnil(L, 2))
		check_value(L, 2, &value);
	if (!lua_isnil(L, 3))
		check_value(L, 3, &value);
	struct shared_op op = change_op(L, 4);
	push_current(L, &op);
	bool is_same = lua_rawequal(L, 2, 5);
	lua_pushboolean(L, is_same);
	if (!is_same) {
		lua_insert(L, 5);
		return 2;
	}
	if (lua_isnil(L, 3))
		shared_remove(dictionary_of(L), &op);
	else if (shared_set(dictionary_of(L), &op, &value, &err) != TIDE_OK)
		return raise_error(L, &err);
	return 1;
}

/* ttl (key) -> milliseconds until it expires; nil: it does not, or is not there */
static int l_ttl(lua_State *L)
{
	struct shared_op op = make_op(L, SHARED_KEYS, check_key(L, 1));
	struct shared_info info;

	if (shared_read(dictionary_of(L), &op, &info) != TIDE_OK || !info.expires_unix_ms)
		return 0;
	lua_pushinteger(L, info.expires_unix_ms - op.now_ms);
	return 1;
}

/* touch (key [, ttl]) -> whether it was there */
static int l_touch(lua_State *L)
{
	struct shared_op op = change_op(L, 2);

	lua_pushboolean(L, shared_touch(dictionary_of(L), &op));
	return 1;
}

/* The most keys that a step of a scan finds. The keys stay in the dictionary, which does
 * not change meanwhile. Clients cannot fill a bucket further: the hash is keyed. */
#define FOUND_MAX (SHARED_SCAN_FOUND + 100)

struct found_keys {
	size_t count;
	struct slice keys[FOUND_MAX];
};

static void on_key(void *ctx, const struct shared_info *info)
{
	struct found_keys *f = ctx;

	if (f->count < FOUND_MAX)
		f->keys[f->count++] = info->key;
}

static int compare_keys(const void *a, const void *b)
{
	return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

/* list ([prefix [, cursor]]) -> the keys that a step has found, sorted; and the cursor of
 * the next step, or nil */
static int l_list(lua_State *L)
{
	struct shared_scan scan = { .prefix = SLICE("") };
	struct shared_op op = make_op(L, SHARED_KEYS, scan.prefix);

	if (!lua_isnoneornil(L, 1)) {
		luaL_checkstring(L, 1);
		scan.prefix = field_slice(L, 1);
	}
	lua_Integer cursor = luaL_optinteger(L, 2, 0);
	luaL_argcheck(L, cursor >= 0 && cursor <= UINT32_MAX, 2,
		      "a cursor is what `list` has returned");
	scan.space = op.space;
	scan.now_ms = op.now_ms;
	scan.cursor = (uint32_t)cursor;
	struct found_keys *f = lua_newuserdatauv(L, sizeof(*f), 0);
	f->count = 0;
	shared_scan(dictionary_of(L), &scan, on_key, f);
	qsort(f->keys, f->count, sizeof(*f->keys), compare_keys);
	lua_createtable(L, (int)f->count, 0);
	for (size_t i = 0; i < f->count; i++) {
		field_push(L, f->keys[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	if (scan.cursor == 0)
		return 1;
	lua_pushinteger(L, scan.cursor);
	return 2;
}

/* delete (key) -> whether it was there */
static int l_delete(lua_State *L)
{
	struct shared_op op = change_op(L, 0);

	lua_pushboolean(L, shared_remove(dictionary_of(L), &op));
	return 1;
}

/* Moments from now until then are exact as a double. */
#define BUCKET_FILL_MAX_MS 1e15

/* A bucket. */
struct bucket {
	double interval_ms;  /* between two tokens */
	double tolerance_ms; /* what it holds, as time */
	double burst;
	size_t len;
	char name[];
};

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
	if (burst * 1000 / rate > BUCKET_FILL_MAX_MS)
		luaL_error(L, "at this 'rate' the bucket needs more than 30,000 years "
			      "for its 'burst'");
	struct slice name = check_key(L, 1);
	struct bucket *n = lua_newuserdatauv(L, sizeof(*n) + name.len, 0);

	*n = (struct bucket){ .interval_ms = 1000 / rate,
			      .burst = burst,
			      .tolerance_ms = burst * 1000 / rate,
			      .len = name.len };
	memcpy(n->name, name.data, name.len);
	api_object_make(L);
	return 1;
}

/* When the bucket will be full again. The clock may have been set back: it is never
 * further away than that of a bucket that is empty, and as far ahead as may be. */
static double full_at(lua_State *L, const struct bucket *n, const struct shared_op *op,
		      double ahead_ms)
{
	struct shared_value value;
	double now = (double)op->now_ms;

	if (shared_get(dictionary_of(L), op, &value) != TIDE_OK ||
	    value.type != SHARED_NUMBER)
		return now;
	return fmin(fmax(value.number, now), now + n->tolerance_ms + ahead_ms);
}

static double check_tokens(lua_State *L, const struct bucket *n)
{
	double tokens = luaL_optnumber(L, 2, 1);

	luaL_argcheck(L, tokens >= 0, 2, "a number of tokens must not be negative");
	if (!(tokens <= n->burst))
		luaL_error(L, "the bucket never holds that many tokens");
	return tokens;
}

/* Take tokens that the bucket will have within `ahead_ms`. The milliseconds until it
 * has them, 0 for now; those that are too many are negative, and nothing is taken. */
static int64_t take_ahead(lua_State *L, const struct bucket *n, double tokens,
			  double ahead_ms)
{
	struct shared_op op =
		make_op(L, SHARED_BUCKETS, (struct slice){ n->name, n->len });
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
	if (tokens > 0 && shared_set(dictionary_of(L), &op, &full, &err) != TIDE_OK)
		raise_error(L, &err);
	return (int64_t)ceil(over_ms);
}

/* bucket:take ([n]) -> true, or false and the milliseconds to wait */
static int l_take(lua_State *L)
{
	const struct bucket *n = api_object_check(L);
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
	const struct bucket *n = api_object_check(L);
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

/* bucket:left () -> the whole tokens that it has, and the milliseconds until it is full
 */
static int l_left(lua_State *L)
{
	const struct bucket *n = api_object_check(L);
	const struct shared_op op =
		make_op(L, SHARED_BUCKETS, (struct slice){ n->name, n->len });
	/* What `reserve` has taken ahead counts as well. */
	double until_ms = full_at(L, n, &op, INFINITY) - (double)op.now_ms;
	double has = (n->tolerance_ms - until_ms) / n->interval_ms;

	lua_pushinteger(L, (lua_Integer)fmax(0, floor(has + 1e-6)));
	lua_pushinteger(L, (lua_Integer)ceil(until_ms));
	return 2;
}

/* One of each type, with its labels. The text and the buckets stand behind it. */
struct api_metric {
	struct meter_handle handle; /* without a file */
	bool is_labelled;
};

static void check_name(lua_State *L, struct slice name)
{
	luaL_argcheck(
		L, series_is_name(name), 1,
		"the name of a metric has up to 64 letters, digits and '_', does not "
		"begin with a digit, nor end in _total, _bucket, _sum, _count, "
		"_created or _info");
}

/* The value on the top as a text. */
static struct slice read_value(lua_State *L)
{
	int type = lua_type(L, -1);

	if (type == LUA_TBOOLEAN)
		return lua_toboolean(L, -1) ? SLICE("true") : SLICE("false");
	if (type != LUA_TSTRING && type != LUA_TNUMBER)
		luaL_error(L,
			   "the value of a label is a text, a number or a boolean, not "
			   "a %s",
			   luaL_typename(L, -1));
	return field_slice(L, -1);
}

/* The table at `idx`. The values stay on the stack: they are what the labels point at. */
static unsigned read_labels(lua_State *L, int idx,
			    struct series_label out[SERIES_LABELS_MAX])
{
	unsigned count = 0;

	if (lua_isnoneornil(L, idx))
		return 0;
	luaL_checktype(L, idx, LUA_TTABLE);
	safe_lib_unfold(L, idx);
	luaL_checkstack(L, 2 * SERIES_LABELS_MAX + 4, NULL);
	lua_pushnil(L);
	while (lua_next(L, idx)) {
		luaL_argcheck(L,
			      lua_type(L, -2) == LUA_TSTRING &&
				      series_is_label(field_slice(L, -2)),
			      idx,
			      "the name of a label has up to 32 letters, digits and '_', "
			      "does not begin with a digit or '__', and is not 'le'");
		luaL_argcheck(L, count < SERIES_LABELS_MAX, idx,
			      "a metric has at most 6 labels");
		out[count].name = field_slice(L, -2);
		out[count++].value = read_value(L);
		lua_pushvalue(L, -2); /* the key goes on below its value */
	}
	return count;
}

struct buckets {
	unsigned count;
	double bounds[METERS_BUCKETS_MAX];
};

/* The metric of argument 1, with the labels at `labels`. */
static void make(lua_State *L, enum meter_type type, int labels, const struct buckets *b)
{
	struct series_label list[SERIES_LABELS_MAX];
	char text[SERIES_TEXT_MAX];
	struct slice name = field_slice(L, 1);
	unsigned count = read_labels(L, labels, list);

	if (count > 0)
		check_name(L, name);
	size_t bounds_len = b->count * sizeof(*b->bounds);
	size_t len = series_write(text, name, list, count);
	struct api_metric *m = lua_newuserdatauv(L, sizeof(*m) + bounds_len + len, 0);
	double *bounds = (double *)(m + 1);
	memcpy(bounds, b->bounds, bounds_len);
	memcpy(bounds + b->count, text, len);
	*m = (struct api_metric){
		.handle = { .type = type,
			    .text = { (char *)(bounds + b->count), len },
			    .name_len = name.len,
			    .load = script_state_of(L)->number,
			    .bucket_count = b->count,
			    .buckets = bounds },
		.is_labelled = len > name.len,
	};
	api_object_make(L);
}

/* counter (name [, labels]) */
static int l_counter(lua_State *L)
{
	static const struct buckets none;
	size_t len;
	const char *name = luaL_checklstring(L, 1, &len);

	luaL_argcheck(L, len >= 1 && len <= SHARED_KEY_MAX && !memchr(name, '{', len), 1,
		      "the name of a counter has 1 to 256 bytes, and no '{'");
	make(L, METER_GAUGE, 2, &none);
	return 1;
}

/* gauge (name [, labels]) */
static int l_gauge(lua_State *L)
{
	static const struct buckets none;

	luaL_checkstring(L, 1);
	check_name(L, field_slice(L, 1));
	make(L, METER_GAUGE, 2, &none);
	return 1;
}

/* The list at `idx`. */
static void read_buckets(lua_State *L, int idx, struct buckets *out)
{
	static const char wanted[] =
		"'buckets' is a list of 1 to 30 finite numbers, each "
		"larger than the one before";

	if (!lua_istable(L, idx))
		luaL_error(L, wanted);
	lua_Integer count = luaL_len(L, idx);
	if (count < 1 || count > METERS_BUCKETS_MAX)
		luaL_error(L, wanted);
	for (lua_Integer i = 1; i <= count; i++) {
		lua_geti(L, idx, i);
		double bound = lua_tonumber(L, -1);
		if (lua_type(L, -1) != LUA_TNUMBER || !isfinite(bound) ||
		    (i > 1 && bound <= out->bounds[i - 2]))
			luaL_error(L, wanted);
		out->bounds[i - 1] = bound;
		lua_pop(L, 1);
	}
	out->count = (unsigned)count;
}

/* histogram (name, { buckets = {…} } [, labels]) */
static int l_histogram(lua_State *L)
{
	static const char *const fields[] = { "buckets", NULL };
	struct buckets buckets;

	luaL_checkstring(L, 1);
	check_name(L, field_slice(L, 1));
	lua_settop(L, 3);
	luaL_checktype(L, 2, LUA_TTABLE);
	field_check_names(L, 2, "a histogram", fields);
	lua_getfield(L, 2, "buckets");
	read_buckets(L, 4, &buckets);
	make(L, METER_HISTOGRAM, 3, &buckets);
	return 1;
}

static bool has_room(const struct shared *s, const struct api_metric *m, size_t times)
{
	const struct slice name = { m->handle.text.data, m->handle.name_len };

	return shared_count_family(s, name) < times * SERIES_PER_METRIC &&
	       shared_count_labelled(s) < times * SERIES_IN_ALL;
}

/* Add the first value of a new series, or count it in the series `other`. */
static int add_first(lua_State *L, const struct api_metric *m, struct shared_op *op,
		     const struct shared_value *by, struct shared_value *sum)
{
	struct shared *s = dictionary_of(L);
	char other[SERIES_TEXT_MAX];
	struct error err;

	op->must_exist = false;
	op->now_ms = api_tide_call_ms(L, self(L));
	if (m->is_labelled && !has_room(s, m, 1)) {
		op->key = (struct slice){ other, series_write_other(other, op->key) };
		if (!has_room(s, m, 2))
			op->key.len = m->handle.name_len;
	}
	if (shared_incr(s, op, by, sum, &err) != TIDE_OK)
		return raise_error(L, &err);
	return TIDE_OK;
}

/* counter:incr ([by]) -> the new value */
static int l_counter_incr(lua_State *L)
{
	const struct api_metric *m = api_object_check(L);
	struct shared_op op = begin_op(L, SHARED_COUNTERS, m->handle.text);
	struct shared_value by, sum;
	struct error err;

	check_number(L, 2, &by);
	luaL_argcheck(L, lua_isnoneornil(L, 2) || lua_tonumber(L, 2) >= 0, 2,
		      "a counter grows; what falls too is a gauge");
	allow_change(L, &op);
	op.must_exist = true;
	int rc = shared_incr(dictionary_of(L), &op, &by, &sum, &err);
	if (rc == TIDE_EMPTY)
		rc = add_first(L, m, &op, &by, &sum);
	if (rc != TIDE_OK)
		return luaL_error(L, "%s", err.text);
	push_value(L, &sum);
	return 1;
}

/* counter:get () -> value */
static int l_counter_get(lua_State *L)
{
	const struct api_metric *m = api_object_check(L);
	struct shared_op op = begin_op(L, SHARED_COUNTERS, m->handle.text);
	struct shared_value value;

	if (shared_get(dictionary_of(L), &op, &value) != TIDE_OK)
		value = (struct shared_value){ .type = SHARED_INTEGER };
	push_value(L, &value);
	return 1;
}

typedef int meters_change_fn(struct meters *m, const struct meter_handle *h, double value,
			     struct error *err);

/* Change the metric by argument 2. */
static int change_meter(lua_State *L, struct api_metric *m, meters_change_fn *change,
			double value)
{
	const struct decision_context *c = decision_context_of(L);
	struct error err;

	luaL_argcheck(L, isfinite(value), 2, "a metric takes finite numbers");
	script_check_pure(L, "a metric");
	if (script_state_of(L)->is_loading)
		luaL_error(L, "a metric cannot be changed while files are loaded");
	/* A simulation has a dictionary of its own, and no meters. */
	if (c && (c->is_dry || c->shared))
		return 0;
	m->handle.file = script_state_of(L)->account->file;
	return change(self(L)->meters, &m->handle, value, &err) == TIDE_OK
		       ? 0
		       : raise_error(L, &err);
}

/* gauge:set (value) */
static int l_gauge_set(lua_State *L)
{
	struct api_metric *m = api_object_check(L);

	return change_meter(L, m, meters_set, luaL_checknumber(L, 2));
}

/* gauge:incr ([by]) */
static int l_gauge_incr(lua_State *L)
{
	struct api_metric *m = api_object_check(L);

	return change_meter(L, m, meters_add, luaL_optnumber(L, 2, 1));
}

/* gauge:get () -> value */
static int l_gauge_get(lua_State *L)
{
	const struct api_metric *m = api_object_check(L);

	script_check_pure(L, "a metric");
	lua_pushnumber(L, meters_get(self(L)->meters, &m->handle));
	return 1;
}

/* histogram:observe (value) */
static int l_histogram_observe(lua_State *L)
{
	struct api_metric *m = api_object_check(L);

	return change_meter(L, m, meters_observe, luaL_checknumber(L, 2));
}

static void add_metrics(lua_State *L, struct api_tide *t)
{
	static const luaL_Reg counter[] = { { "get", l_counter_get },
					    { "incr", l_counter_incr },
					    { NULL, NULL } };
	static const luaL_Reg gauge[] = { { "get", l_gauge_get },
					  { "incr", l_gauge_incr },
					  { "set", l_gauge_set },
					  { NULL, NULL } };
	static const luaL_Reg histogram[] = { { "observe", l_histogram_observe },
					      { NULL, NULL } };
	static const struct api_object objects[] = {
		{ "counter", l_counter, counter },
		{ "gauge", l_gauge, gauge },
		{ "histogram", l_histogram, histogram },
	};

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		api_object_add(L, t, &objects[i]);
}

void api_shared_add(lua_State *L, struct api_tide *t)
{
	static const luaL_Reg shared[] = {
		{ "add", l_add }, { "cas", l_cas },     { "delete", l_delete },
		{ "get", l_get }, { "incr", l_incr },   { "list", l_list },
		{ "set", l_set }, { "touch", l_touch }, { "ttl", l_ttl },
		{ NULL, NULL },
	};
	static const luaL_Reg bucket[] = { { "left", l_left },
					   { "reserve", l_reserve },
					   { "take", l_take },
					   { NULL, NULL } };

	lua_newtable(L);
	lua_pushlightuserdata(L, t);
	luaL_setfuncs(L, shared, 1);
	read_only_protect(L);
	lua_setfield(L, -2, "shared");
	api_object_add(L, t, &(struct api_object){ "bucket", l_bucket, bucket });
	add_metrics(L, t);
}
