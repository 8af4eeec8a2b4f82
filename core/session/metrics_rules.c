#include "metrics_rules.h"

#include "base/mem.h"
#include "rules/engine/engine_figures.h"
#include "session_private.h"

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

static void write_generation(struct exposition *e, const struct engine_figures *f)
{
	exposition_gauge(e, "tidemq_rules_generation",
			 "The number of the active generation.", f->generation);
	exposition_gauge(e, "tidemq_rules_loaded_timestamp_seconds",
			 "When it was loaded, since 1970.",
			 (double)f->loaded_unix_ms / 1000);
	exposition_counter(e, "tidemq_rules_refusals", "Generations that were refused.",
			   f->refused);
	exposition_gauge(e, "tidemq_rules_refused",
			 "1: the last attempt to load rules was refused.", f->is_refused);
	exposition_gauge(e, "tidemq_rules_memory_bytes",
			 "Memory of the active generation.", f->memory_bytes);
	exposition_gauge(e, "tidemq_rules_memory_limit_bytes", "What it may take.",
			 f->memory_max_bytes);
	exposition_gauge(e, "tidemq_rules_shared_entries", "Entries of tide.shared.",
			 f->shared_entries);
	exposition_gauge(e, "tidemq_rules_shared_entries_limit", "How many it may have.",
			 f->shared_entries_max);
	exposition_gauge(e, "tidemq_rules_shared_bytes", "Their size.", f->shared_bytes);
	exposition_gauge(e, "tidemq_rules_shared_limit_bytes", "What they may take.",
			 f->shared_bytes_max);
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
	    "Messages that a filter refused, or logins that a script refused." },
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
				exposition_text("kind", scripts[i].kind),
				exposition_text("script", scripts[i].name)
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
						   exposition_text("origin", f.origin) },
		2, 1);
	write_generation(e, &f);
	write_scripts(e, s->broker->engine);
}
