/* api_metrics.c: tide.counter, tide.gauge and tide.histogram. */
#include <lauxlib.h>
#include <math.h>
#include <string.h>

#include "api_object.h"
#include "api_shared.h"
#include "api_tide.h"
#include "decision_context.h"
#include "meters.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/safe_lib.h"
#include "series.h"

/* One of each type, with its labels. The text and the buckets stand behind it. */
struct api_metric {
	struct meter_handle handle; /* without a file */
	bool is_labelled;
};

static struct api_tide *self(lua_State *L)
{
	return lua_touserdata(L, lua_upvalueindex(1));
}

/* ---- names and labels ---- */

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

/* ---- making one ---- */

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

/* ---- counters: in tide.shared ---- */

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
	struct shared *s = api_shared_of(L);
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
		return luaL_error(L, "%s", err.text);
	return TIDE_OK;
}

/* counter:incr ([by]) -> the new value */
static int l_counter_incr(lua_State *L)
{
	const struct api_metric *m = api_object_check(L);
	struct shared_op op = api_shared_op(L, SHARED_COUNTERS, m->handle.text);
	struct shared_value by, sum;
	struct error err;

	api_shared_check_number(L, 2, &by);
	luaL_argcheck(L, lua_isnoneornil(L, 2) || lua_tonumber(L, 2) >= 0, 2,
		      "a counter grows; what falls too is a gauge");
	api_shared_allow(L, &op);
	op.must_exist = true;
	int rc = shared_incr(api_shared_of(L), &op, &by, &sum, &err);
	if (rc == TIDE_EMPTY)
		rc = add_first(L, m, &op, &by, &sum);
	if (rc != TIDE_OK)
		return luaL_error(L, "%s", err.text);
	api_shared_push(L, &sum);
	return 1;
}

/* counter:get () -> value */
static int l_counter_get(lua_State *L)
{
	const struct api_metric *m = api_object_check(L);
	struct shared_op op = api_shared_op(L, SHARED_COUNTERS, m->handle.text);
	struct shared_value value;

	if (shared_get(api_shared_of(L), &op, &value) != TIDE_OK)
		value = (struct shared_value){ .type = SHARED_INTEGER };
	api_shared_push(L, &value);
	return 1;
}

/* ---- gauges and histograms ---- */

static double check_finite(lua_State *L, int arg, double preset)
{
	double value = luaL_optnumber(L, arg, preset);

	luaL_argcheck(L, isfinite(value), arg, "a metric takes finite numbers");
	return value;
}

/* The handle for a change; NULL: nothing is to change. */
static struct meter_handle *change(lua_State *L, struct api_metric *m)
{
	const struct decision_context *c = decision_context_of(L);

	script_check_pure(L, "a metric");
	if (script_state_of(L)->is_loading)
		luaL_error(L, "a metric cannot be changed while files are loaded");
	/* A simulation has a dictionary of its own, and no meters. */
	if (c && (c->is_dry || c->shared))
		return NULL;
	m->handle.file = script_state_of(L)->account->file;
	return &m->handle;
}

static int finish(lua_State *L, int rc, const struct error *err)
{
	return rc == TIDE_OK ? 0 : luaL_error(L, "%s", err->text);
}

/* gauge:set (value) */
static int l_gauge_set(lua_State *L)
{
	struct api_metric *m = api_object_check(L);
	struct error err;

	luaL_checknumber(L, 2);
	double value = check_finite(L, 2, 0);
	const struct meter_handle *h = change(L, m);
	return h ? finish(L, meters_set(self(L)->meters, h, value, &err), &err) : 0;
}

/* gauge:incr ([by]) */
static int l_gauge_incr(lua_State *L)
{
	struct api_metric *m = api_object_check(L);
	struct error err;
	double by = check_finite(L, 2, 1);
	const struct meter_handle *h = change(L, m);

	return h ? finish(L, meters_add(self(L)->meters, h, by, &err), &err) : 0;
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
	struct error err;

	luaL_checknumber(L, 2);
	double value = check_finite(L, 2, 0);
	const struct meter_handle *h = change(L, m);
	return h ? finish(L, meters_observe(self(L)->meters, h, value, &err), &err) : 0;
}

void api_metrics_add(lua_State *L, struct api_tide *t)
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
