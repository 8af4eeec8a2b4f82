#include "engine_figures.h"

#include <string.h>

#include "engine_private.h"
#include "rules/api/meters.h"
#include "rules/api/shared.h"

#define COUNTERS_SHOWN 256  /* of those without a name of meters.h */
#define COUNTERS_SEEN 10000 /* of all: a walk of less than a millisecond */

void engine_figures_read(const struct engine *e, struct engine_figures *out)
{
	const struct generation *g = e->current;
	struct shared_stats shared;

	shared_stats(e->tide.shared, &shared);
	*out = (struct engine_figures){
		.generation = e->epoch,
		.hash = g->hash,
		.origin = engine_origin_name(e->origin),
		.loaded_unix_ms = g->loaded_unix_ms,
		.refused = e->reload.refused_count,
		.is_refused = e->reload.refusal.code != TIDE_OK,
		.memory_bytes = g->script.memory_bytes,
		.memory_max_bytes = g->script.memory_max_bytes,
		.shared_entries = shared.entries,
		.shared_entries_max = shared.entries_max,
		.shared_bytes = shared.bytes,
		.shared_bytes_max = shared.bytes_max,
	};
}

size_t engine_figures_count_scripts(const struct engine *e)
{
	return e->current->rule_count;
}

void engine_figures_read_script(const struct engine *e, size_t number,
				struct engine_script *out)
{
	const struct rule *rule = e->current->rules[number];
	struct script_stats stats;

	figures_since_start(rule, &stats);
	*out = (struct engine_script){
		.kind = script_kind_name(rule->kind),
		.name = rule->name,
		.calls = stats.calls,
		.errors = stats.errors,
		.overruns = stats.overruns,
		.rejected = stats.rejected,
		.skipped = stats.skipped,
		.time_ns = stats.time_ns,
		.longest_ns = stats.cost.max_ns,
		.memory_bytes = account_sum(&e->current->script.accounts, rule->file),
		.open_circuits = circuit_count_open(e, rule),
	};
}

struct metric_call {
	const struct engine *engine;
	engine_metric_fn tell;
	void *ctx;
	unsigned plain; /* counters that were told */
};

/* A name that Prometheus knows, with or without labels, and no other metric has. */
static bool is_plain(const struct engine *e, struct slice text)
{
	struct series s;

	return !series_read(text, &s) || meters_has(e->tide.meters, s.name);
}

static void tell_counter(void *ctx, const struct shared_info *info)
{
	struct metric_call *c = ctx;
	const struct shared_value *v = &info->value;
	const struct engine_metric m = {
		.type = ENGINE_COUNTER,
		.text = info->key,
		.is_plain = is_plain(c->engine, info->key),
		.value = v->type == SHARED_INTEGER ? (double)v->integer : v->number,
		.file = info->file,
	};

	if (!m.is_plain || c->plain++ < COUNTERS_SHOWN)
		c->tell(c->ctx, &m);
}

static void tell_meter(void *ctx, const struct meter_view *v)
{
	const struct metric_call *c = ctx;
	const struct engine_metric m = {
		.type = v->type == METER_GAUGE ? ENGINE_GAUGE : ENGINE_HISTOGRAM,
		.text = v->text,
		.value = v->value,
		.bucket_count = v->bucket_count,
		.buckets = v->buckets,
		.counts = v->counts,
		.file = v->file,
	};

	c->tell(c->ctx, &m);
}

void engine_figures_each_metric(const struct engine *e, engine_metric_fn tell, void *ctx)
{
	struct metric_call c = { e, tell, ctx, 0 };

	shared_each_counter(e->tide.shared, engine_now_ms(e), COUNTERS_SEEN, tell_counter,
			    &c);
	meters_each(e->tide.meters, tell_meter, &c);
}

const char *engine_figures_doc(const struct engine *e, const char *file)
{
	const struct generation *g = e->current;

	for (size_t i = 0; file && i < g->rule_count; i++)
		if (strcmp(g->rules[i]->file, file) == 0)
			return g->rules[i]->doc;
	return NULL;
}
