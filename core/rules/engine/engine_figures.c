#include "engine_figures.h"

#include "engine_private.h"
#include "rules/api/shared.h"

#define COUNTERS_SHOWN 256

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

struct counter_call {
	engine_counter_fn tell;
	void *ctx;
};

static void tell_counter(void *ctx, struct slice name, const struct shared_value *value)
{
	const struct counter_call *c = ctx;

	c->tell(c->ctx, name,
		value->type == SHARED_INTEGER ? (double)value->integer : value->number);
}

void engine_figures_each_counter(const struct engine *e, engine_counter_fn tell,
				 void *ctx)
{
	struct counter_call c = { tell, ctx };

	shared_each_counter(e->tide.shared, engine_now_ms(e), COUNTERS_SHOWN,
			    tell_counter, &c);
}
