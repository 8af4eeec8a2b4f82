#include "metrics_rules.h"

#include "base/mem.h"
#include "rules/engine/engine_figures.h"
#include "session_private.h"

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

struct rules_figure {
	struct exposition_family family;
	double (*value)(const struct engine_figures *f);
};

#define RULES_FIGURE(name, expression)                              \
	static double figure_##name(const struct engine_figures *f) \
	{                                                           \
		return (double)(expression);                        \
	}

RULES_FIGURE(rules_generation, f->generation)
RULES_FIGURE(rules_loaded_timestamp_seconds, (double)f->loaded_unix_ms / 1000)
RULES_FIGURE(rules_refusals, f->refused)
RULES_FIGURE(rules_refused, f->is_refused)
RULES_FIGURE(rules_memory_bytes, f->memory_bytes)
RULES_FIGURE(rules_memory_limit_bytes, f->memory_max_bytes)
RULES_FIGURE(rules_shared_entries, f->shared_entries)
RULES_FIGURE(rules_shared_entries_limit, f->shared_entries_max)
RULES_FIGURE(rules_shared_bytes, f->shared_bytes)
RULES_FIGURE(rules_shared_limit_bytes, f->shared_bytes_max)

static const struct rules_figure rules_figures[] = {
	{ { "tidemq_rules_generation", EXPOSITION_GAUGE,
	    "The number of the active generation." },
	  figure_rules_generation },
	{ { "tidemq_rules_loaded_timestamp_seconds", EXPOSITION_GAUGE,
	    "When it was loaded, since 1970." },
	  figure_rules_loaded_timestamp_seconds },
	{ { "tidemq_rules_refusals", EXPOSITION_COUNTER,
	    "Generations that were refused." },
	  figure_rules_refusals },
	{ { "tidemq_rules_refused", EXPOSITION_GAUGE,
	    "1: the last attempt to load rules was refused." },
	  figure_rules_refused },
	{ { "tidemq_rules_memory_bytes", EXPOSITION_GAUGE,
	    "Memory of the active generation." },
	  figure_rules_memory_bytes },
	{ { "tidemq_rules_memory_limit_bytes", EXPOSITION_GAUGE, "What it may take." },
	  figure_rules_memory_limit_bytes },
	{ { "tidemq_rules_shared_entries", EXPOSITION_GAUGE, "Entries of tide.shared." },
	  figure_rules_shared_entries },
	{ { "tidemq_rules_shared_entries_limit", EXPOSITION_GAUGE,
	    "How many it may have." },
	  figure_rules_shared_entries_limit },
	{ { "tidemq_rules_shared_bytes", EXPOSITION_GAUGE, "Their size." },
	  figure_rules_shared_bytes },
	{ { "tidemq_rules_shared_limit_bytes", EXPOSITION_GAUGE, "What they may take." },
	  figure_rules_shared_limit_bytes },
};

static struct exposition_label label(const char *name, const char *value)
{
	return (struct exposition_label){ name, slice_from(value) };
}

#define SCRIPT_FIGURE(name, expression)                            \
	static double script_##name(const struct engine_script *s) \
	{                                                          \
		return (double)(expression);                       \
	}

SCRIPT_FIGURE(calls, s->calls)
SCRIPT_FIGURE(errors, s->errors)
SCRIPT_FIGURE(overruns, s->overruns)
SCRIPT_FIGURE(rejected, s->rejected)
SCRIPT_FIGURE(skipped, s->skipped)
SCRIPT_FIGURE(seconds, (double)s->time_ns / 1e9)
SCRIPT_FIGURE(longest, (double)s->longest_ns / 1e9)
SCRIPT_FIGURE(memory, s->memory_bytes)
SCRIPT_FIGURE(open_circuits, s->open_circuits)

static const struct {
	struct exposition_family family;
	double (*value)(const struct engine_script *s);
} script_figures[] = {
	{ { "tidemq_script_calls", EXPOSITION_COUNTER, "Decisions asked of the script." },
	  script_calls },
	{ { "tidemq_script_errors", EXPOSITION_COUNTER, "Of these, those that failed." },
	  script_errors },
	{ { "tidemq_script_overruns", EXPOSITION_COUNTER,
	    "Of the errors, those of the time budget." },
	  script_overruns },
	{ { "tidemq_script_rejected", EXPOSITION_COUNTER,
	    "Messages that a filter refused, or logins that a script denied." },
	  script_rejected },
	{ { "tidemq_script_skipped", EXPOSITION_COUNTER,
	    "Decisions that an open circuit failed at once." },
	  script_skipped },
	{ { "tidemq_script_seconds", EXPOSITION_COUNTER, "Time in the script." },
	  script_seconds },
	{ { "tidemq_script_call_max_seconds", EXPOSITION_GAUGE,
	    "The longest call since the start." },
	  script_longest },
	{ { "tidemq_script_memory_bytes", EXPOSITION_GAUGE,
	    "What the script holds of the scripts' memory." },
	  script_memory },
	{ { "tidemq_script_circuits_open", EXPOSITION_GAUGE,
	    "Uses of the script that are paused because it failed too often." },
	  script_open_circuits },
};

static void write_scripts(struct exposition *e, const struct engine *engine)
{
	size_t count = engine_figures_count_scripts(engine);
	struct engine_script *scripts = mem_alloc((count + 1) * sizeof(*scripts));

	for (size_t i = 0; i < count; i++)
		engine_figures_read_script(engine, i, &scripts[i]);
	for (size_t k = 0; k < COUNT_OF(script_figures); k++) {
		exposition_family(e, &script_figures[k].family);
		for (size_t i = 0; i < count; i++) {
			const struct exposition_label labels[] = {
				label("kind", scripts[i].kind),
				label("script", scripts[i].name)
			};

			exposition_sample(e, labels, 2,
					  script_figures[k].value(&scripts[i]));
		}
	}
	mem_free(scripts);
}

void metrics_rules_write(struct service *s, struct exposition *e)
{
	static const struct exposition_family info = { "tidemq_rules", EXPOSITION_INFO,
						       "The active generation." };
	struct engine_figures f;
	char hash[ID_HEX_LEN];

	engine_figures_read(s->broker->engine, &f);
	id_format(f.hash, hash);
	exposition_family(e, &info);
	exposition_sample(
		e,
		(const struct exposition_label[]){ { "hash", { hash, sizeof(hash) } },
						   label("origin", f.origin) },
		2, 1);
	for (size_t i = 0; i < COUNT_OF(rules_figures); i++) {
		exposition_family(e, &rules_figures[i].family);
		exposition_sample(e, NULL, 0, rules_figures[i].value(&f));
	}
	write_scripts(e, s->broker->engine);
}
