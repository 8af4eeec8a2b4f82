/* engine_shared.c: the engine's dictionary, clock and chance, for the broker and
 * for tests. */
#include "engine_private.h"
#include "rules/api/shared.h"

#define COUNTERS_SHOWN 256

struct shared *engine_shared(const struct engine *e)
{
	return e->shared;
}

static void write_counter(void *ctx, struct slice name, const struct shared_value *value)
{
	struct json *out = ctx;
	json_key_slice(out, name);
	if (value->type == SHARED_INTEGER)
		json_int(out, value->integer);
	else
		json_number(out, value->number);
}

void engine_status_counters(const struct engine *e, struct json *out)
{
	shared_each_counter(e->shared, engine_now_ms(e), COUNTERS_SHOWN, write_counter,
			    out);
}

void status_shared(const struct engine *e, struct json *out)
{
	struct shared_stats stats;
	shared_stats(e->shared, &stats);
	json_key(out, "shared");
	json_object_begin(out);
	json_member_int(out, "entries", (int64_t)stats.entries);
	json_member_int(out, "entries_max", (int64_t)stats.entries_max);
	json_member_int(out, "bytes", (int64_t)stats.bytes);
	json_member_int(out, "bytes_max", (int64_t)stats.bytes_max);
	json_member_int(out, "unwritten", (int64_t)stats.unwritten);
	json_object_end(out);
	json_key(out, "counters");
	json_object_begin(out);
	engine_status_counters(e, out);
	json_object_end(out);
}

void engine_set_clock(struct engine *e, int64_t now_ms)
{
	e->tide.is_clock_fixed = true;
	e->tide.fixed_now_ms = now_ms;
}

void engine_release_clock(struct engine *e)
{
	e->tide.is_clock_fixed = false;
}

int64_t engine_now_ms(const struct engine *e)
{
	return api_tide_now_ms(&e->tide);
}

uint64_t engine_random_state(const struct engine *e)
{
	return e->tide.random_state;
}

void engine_seed(struct engine *e, uint64_t seed)
{
	api_tide_seed(&e->tide, seed);
}
