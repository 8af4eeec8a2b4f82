/* engine_status.c: what scripts have cost and what the engine has, for RULES status,
 * LIST rules and /metrics. */

#include "engine_status.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "auth.h"
#include "base/mem.h"
#include "engine_private.h"
#include "host/machine.h"
#include "rules/api/meters.h"
#include "rules/api/shared.h"

#define COUNTERS_SHOWN 256
#define METERS_SHOWN 256 /* series of gauges and histograms */

/* The allowed values of the option besides its type. */
static void write_allowed(struct json *out, const struct option *o)
{
	if (o->row.type == OPTION_LIST)
		json_member_text(out, "of", option_type_name(o->row.of));
	if (o->is_required)
		json_member_bool(out, "required", true);
	if (o->row.has_min) {
		json_member_number(out, "min", o->row.min);
	}
	if (o->row.has_max) {
		json_member_number(out, "max", o->row.max);
	}
	if (o->choices.count == 0)
		return;
	json_member_array(out, "choices");
	for (size_t i = 0; i < o->choices.count; i++)
		json_text(out, o->choices.items[i].name);
	json_array_end(out);
}

static void write_option(struct json *out, const struct option *o)
{
	json_object_begin(out);
	json_member_text(out, "name", o->row.name);
	json_member_text(out, "type", option_type_name(o->row.type));
	if (o->row.fallback)
		json_member_text(out, "default", o->row.fallback);
	if (o->row.help)
		json_member_text(out, "doc", o->row.help);
	write_allowed(out, o);
	json_object_end(out);
}

static void write_options(struct json *out, const char *key, const struct options *o)
{
	json_member_array(out, key);
	for (size_t i = 0; i < o->count; i++)
		write_option(out, &o->items[i]);
	json_array_end(out);
}

static size_t count_uses(const struct engine *e, const struct rule *rule)
{
	size_t count = 0;

	for (size_t i = 0; i < e->current->use_count; i++)
		count += e->current->uses[i].rule == rule;
	return count;
}

static void write_match(struct json *out, const struct rule *rule,
			const struct script_stats *since_start)
{
	json_member_int(out, "uses", rule->match != NULL);
	json_member_bool(out, "active", rule->match != NULL);
	json_member_int(out, "rejected", (int64_t)since_start->rejected);
	if (rule->match)
		rule_match_write(rule->match, rule->kind, out);
}

static void write_auth(struct json *out, const struct rule *rule,
		       const struct script_stats *since_start)
{
	json_member_int(out, "uses", !rule->is_idle);
	json_member_bool(out, "active", !rule->is_idle);
	json_member_bool(out, "authenticate",
			 rule->functions[RULE_AUTHENTICATE] != LUA_NOREF);
	json_member_bool(out, "authorize", rule->functions[RULE_DECIDE] != LUA_NOREF);
	json_member_int(out, "rejected", (int64_t)since_start->rejected);
}

static void write_schedule(struct json *out, const struct rule *rule)
{
	json_member_int(out, "uses", rule->schedule->is_active);
	json_member_bool(out, "active", rule->schedule->is_active);
}

/* May the script refuse? */
static bool has_rejections(const struct rule *rule)
{
	return script_kind_is_ordered(rule->kind);
}

/* Counters and times, of which there may be none yet. */
static void write_figures(struct json *out, const struct script_stats *stats)
{
	json_member_int(out, "calls", (int64_t)stats->calls);
	json_member_int(out, "errors", (int64_t)stats->errors);
	json_member_int(out, "overruns", (int64_t)stats->overruns);
	json_member_int(out, "cache_hits", (int64_t)stats->cache_hits);
	json_member_int(out, "time_us", (int64_t)(stats->time_ns / 1000));
	cost_write(&stats->cost, out);
	json_member_int(out, "skipped", (int64_t)stats->skipped);
}

/* Over all generations. */
static void write_last_minute(struct json *out, const struct rule *rule)
{
	struct minute_sum sum;

	minute_read(&rule->stats.minute, machine_clock_ns(CLOCK_MONOTONIC), &sum);
	json_member_object(out, "last_minute");
	json_member_int(out, "calls", (int64_t)sum.calls);
	json_member_int(out, "errors", (int64_t)sum.errors);
	json_member_int(out, "time_us", (int64_t)(sum.time_ns / 1000));
	json_member_int(out, "p50_ns", (int64_t)cost_quantile_ns(&sum.cost, 0.5));
	json_member_int(out, "p99_ns", (int64_t)cost_quantile_ns(&sum.cost, 0.99));
	json_member_int(out, "max_ns", (int64_t)sum.cost.max_ns);
	json_object_end(out);
}

/* The same of the active generation alone. */
static void write_this_generation(struct json *out, const struct rule *rule)
{
	struct script_stats stats;

	figures_of_generation(rule, &stats);
	json_member_object(out, "this_generation");
	write_figures(out, &stats);
	if (has_rejections(rule))
		json_member_int(out, "rejected", (int64_t)stats.rejected);
	json_object_end(out);
}

static void write_values(struct json *out, const char *key, const struct args *values)
{
	json_member_object(out, key);
	for (size_t i = 0; i < values->count; i++)
		json_member_text(out, values->items[i].name, values->items[i].value);
	json_object_end(out);
}

/* The model of an instance, and the options that the instance gives. */
static void write_instance(struct json *out, const struct rule *rule)
{
	json_member_text(out, "model", rule->model);
	write_values(out, "given", &rule->values);
}

/* The lines of a traceback, the innermost function first. */
static void write_traceback(struct json *out, const char *text)
{
	json_member_array(out, "traceback");
	while (*text) {
		size_t len = strcspn(text, "\n");

		json_slice(out, (struct slice){ text, len });
		text += len + (text[len] == '\n');
	}
	json_array_end(out);
}

/* The members of its object. */
static void write_members(struct json *out, const struct engine *e,
			  const struct rule *rule)
{
	const struct script_stats *stats = &rule->stats;
	struct script_stats since_start;

	figures_since_start(rule, &since_start);
	json_member_text(out, "kind", script_kind_name(rule->kind));
	json_member_text(out, "name", rule->name);
	json_member_text(out, "file", rule->file);
	json_member_hex(out, "hash", rule->hash);
	if (rule->model)
		write_instance(out, rule);
	if (rule->doc)
		json_member_text(out, "doc", rule->doc);
	if (script_kind_has_match(rule->kind))
		write_match(out, rule, &since_start);
	else if (rule->kind == SCRIPT_AUTH)
		write_auth(out, rule, &since_start);
	else if (rule->schedule)
		write_schedule(out, rule);
	else
		json_member_int(out, "uses", (int64_t)count_uses(e, rule));
	write_figures(out, &since_start);
	write_this_generation(out, rule);
	write_last_minute(out, rule);
	circuit_write(e, rule, out);
	json_member_int(out, "memory_bytes",
			(int64_t)account_sum(&e->current->script.accounts, rule->file));
	if (stats->last_error[0]) {
		json_member_text(out, "last_error", stats->last_error);
		json_member_int(out, "last_error_ms", stats->last_error_unix_ms);
		write_traceback(out, stats->last_traceback);
	}
	write_options(out, "options", &rule->options);
	if (rule->kind == SCRIPT_ROUTING)
		write_options(out, "binding_options", &rule->binding_options);
}

/* As it was loaded: the directory may have another one by now. */
static void write_source(struct json *out, const struct engine *e,
			 const struct rule *rule)
{
	const struct bundle_file *file = generation_file(e->current, rule);

	if (file)
		json_member_string(out, "source",
				   (struct slice){ file->text, file->len });
}

void engine_status_shipped(const struct engine *e, struct json *out)
{
	static const char dir[] = SANDBOX_SHIPPED_DIR "/";
	const struct bundle *framework = e->current->sandbox.framework;
	char name[SCRIPT_PLACE_MAX];

	for (size_t i = 0; i < framework->count; i++) {
		const struct bundle_file *file = &framework->files[i];

		if (!slice_has_prefix(slice_from(file->path), dir))
			continue;
		snprintf(name, sizeof(name), SANDBOX_SHIPPED "%s",
			 file->path + strlen(dir));
		json_member_string(out, name, (struct slice){ file->text, file->len });
	}
}

void engine_status_forgotten(const struct engine *e, struct buf *out)
{
	const struct generation *g = e->current;

	for (size_t i = 0; i < g->rule_count; i++)
		if (rule_is_forgotten(g->rules[i], g->rules, g->rule_count))
			buf_printf(out, "%s%s", buf_len(out) ? ", " : "",
				   g->rules[i]->file);
}

static void write_rule(struct json *out, const struct engine *e, const struct rule *rule,
		       bool has_source)
{
	json_object_begin(out);
	write_members(out, e, rule);
	if (has_source)
		write_source(out, e, rule);
	json_object_end(out);
}

static bool is_file(const char *file, struct slice wanted)
{
	return slice_is(wanted, file) || (strlen(file) == wanted.len + strlen(".lua") &&
					  memcmp(file, wanted.data, wanted.len) == 0);
}

/* "topic", "routing/topic" or "routing/topic.lua"; of a shipped one also
 * "shipped/routing/topic.lua" */
static bool is_named(const struct rule *rule, struct slice wanted)
{
	return slice_is(wanted, rule->name) || is_file(rule->file, wanted) ||
	       (rule->is_shipped &&
		is_file(rule->file + strlen(SANDBOX_SHIPPED), wanted));
}

static int refuse_name(const struct generation *g, struct slice name, struct error *err)
{
	struct buf names = { 0 };

	for (size_t i = 0; i < g->rule_count; i++)
		if (!g->rules[i]->is_shipped)
			buf_printf(&names, "%s/%s, ", script_kind_name(g->rules[i]->kind),
				   g->rules[i]->name);
	error_set(err, TIDE_ENOTFOUND,
		  "there is no script '%.*s', and modules are not shown; there are %sand "
		  "those that are shipped",
		  SLICE_HEAD(name, 64), buf_cstr(&names));
	buf_deinit(&names);
	return TIDE_ENOTFOUND;
}

int engine_status_scripts(const struct engine *e, struct slice name, bool has_source,
			  struct json *out, struct error *err)
{
	const struct generation *g = e->current;
	size_t found = 0;

	for (size_t i = 0; i < g->rule_count; i++)
		found += is_named(g->rules[i], name);
	if (found == 0)
		return refuse_name(g, name, err);
	figures_count_hits(e);
	json_array_begin(out);
	for (size_t i = 0; i < g->rule_count; i++)
		if (is_named(g->rules[i], name))
			write_rule(out, e, g->rules[i], has_source);
	json_array_end(out);
	return TIDE_OK;
}

static void write_refusal(struct json *out, const struct engine *e)
{
	json_key(out, "refusal");
	if (e->reload.refusal.code == TIDE_OK) {
		json_nil(out);
		return;
	}
	json_object_begin(out);
	json_member_text(out, "error", e->reload.refusal.text);
	json_member_int(out, "ms", e->reload.refused_unix_ms);
	json_object_end(out);
}

/* The cost of the last build, or of the one under way, for the loop. */
static void write_build(struct json *out, const struct build *b)
{
	json_member_object(out, "build");
	json_member_bool(out, "under_way", b->is_under_way);
	json_member_int(out, "turns", b->turns);
	json_member_int(out, "took_us", b->took_ns / 1000);
	json_member_int(out, "worked_us", b->worked_ns / 1000);
	json_member_int(out, "longest_turn_us", b->longest_ns / 1000);
	json_member_int(out, "longest_turn_cpu_us", b->longest_cpu_ns / 1000);
	json_object_end(out);
}

static void write_counter(void *ctx, const struct shared_info *info)
{
	struct json *out = ctx;

	json_key_slice(out, info->key);
	if (info->value.type == SHARED_INTEGER)
		json_int(out, info->value.integer);
	else
		json_number(out, info->value.number);
}

void engine_status_counters(const struct engine *e, struct json *out)
{
	shared_each_counter(e->tide.shared, engine_now_ms(e), COUNTERS_SHOWN,
			    write_counter, out);
}

static void write_labels(struct json *out, struct slice text)
{
	struct series s;

	if (!series_read(text, &s))
		return;
	json_member_string(out, "name", s.name);
	json_member_object(out, "labels");
	for (unsigned i = 0; i < s.count; i++) {
		json_key_slice(out, s.labels[i].name);
		json_slice(out, s.labels[i].value);
	}
	json_object_end(out);
}

static void write_buckets(struct json *out, const struct meter_view *v)
{
	uint64_t count = 0;

	json_member_array(out, "buckets");
	for (unsigned i = 0; i <= v->bucket_count; i++) {
		count += v->counts[i];
		json_array_begin(out);
		if (i < v->bucket_count)
			json_number(out, v->buckets[i]);
		else
			json_nil(out);
		json_uint(out, count);
		json_array_end(out);
	}
	json_array_end(out);
	json_member_int(out, "count", (int64_t)count);
	json_member_number(out, "sum", v->value);
}

struct metrics_writer {
	struct json *out;
	unsigned left;
};

static void write_meter(void *ctx, const struct meter_view *v)
{
	struct metrics_writer *w = ctx;

	if (w->left == 0)
		return;
	w->left--;
	json_object_begin(w->out);
	write_labels(w->out, v->text);
	json_member_text(w->out, "type", v->type == METER_GAUGE ? "gauge" : "histogram");
	json_member_text(w->out, "file", v->file);
	if (v->type == METER_GAUGE)
		json_member_number(w->out, "value", v->value);
	else
		write_buckets(w->out, v);
	json_object_end(w->out);
}

void engine_status_metrics(const struct engine *e, struct json *out)
{
	struct metrics_writer w = { out, METERS_SHOWN };

	meters_each(e->tide.meters, write_meter, &w);
}

static void write_payer(void *ctx, const struct shared_payer_stats *payer)
{
	struct json *out = ctx;

	json_object_begin(out);
	json_member_text(out, "file", payer->file);
	json_member_string(out, "vhost", payer->vhost);
	json_member_int(out, "entries", (int64_t)payer->entries);
	json_member_int(out, "bytes", (int64_t)payer->bytes);
	json_object_end(out);
}

static void write_shared(const struct engine *e, struct json *out)
{
	struct shared_stats stats;

	shared_stats(e->tide.shared, &stats);
	json_member_object(out, "shared");
	json_member_int(out, "entries", (int64_t)stats.entries);
	json_member_int(out, "entries_max", (int64_t)stats.entries_max);
	json_member_int(out, "bytes", (int64_t)stats.bytes);
	json_member_int(out, "bytes_max", (int64_t)stats.bytes_max);
	json_member_int(out, "unwritten", (int64_t)stats.unwritten);
	json_member_array(out, "holders");
	shared_each_payer(e->tide.shared, write_payer, out);
	json_array_end(out);
	json_object_end(out);
	json_member_object(out, "counters");
	engine_status_counters(e, out);
	json_object_end(out);
	json_member_array(out, "metrics");
	engine_status_metrics(e, out);
	json_array_end(out);
}

void engine_status(const struct engine *e, struct json *out)
{
	const struct generation *g = e->current;

	json_object_begin(out);
	json_member_int(out, "generation", (int64_t)e->epoch);
	json_member_hex(out, "hash", g->hash);
	json_member_text(out, "origin", engine_origin_name(e->origin));
	json_member_int(out, "loaded_ms", g->loaded_unix_ms);
	json_member_int(out, "refused", (int64_t)e->reload.refused_count);
	write_refusal(out, e);
	json_member_int(out, "memory_bytes", (int64_t)g->script.memory_bytes);
	json_member_int(out, "memory_max_bytes", (int64_t)g->script.memory_max_bytes);
	write_build(out, &e->build);
	write_values(out, "settings", &e->tide.settings);
	json_member_array(out, "scripts");
	figures_count_hits(e);
	for (size_t i = 0; i < g->rule_count; i++)
		write_rule(out, e, g->rules[i], false);
	json_array_end(out);
	write_shared(e, out);
	json_member_object(out, "auth");
	json_member_bool(out, "authenticate", auth_has_authenticate(e));
	json_member_bool(out, "authorize", auth_has_authorize(e));
	json_object_end(out);
	if (e->hooks.add_status)
		e->hooks.add_status(e->hooks.ctx, out);
	json_object_end(out);
}

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
