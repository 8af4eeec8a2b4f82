/* trial_schedule.c: schedules run once or twice, to see what they publish. */

#include "base/mem.h"
#include "engine_private.h"
#include "schedule.h"
#include "trial.h"

#define BASE_UNIX_MS INT64_C(1790000000000)

/* A run, and what it is told of every queue. */
struct outing {
	const struct trial *trial;
	struct engine *engine;
	const struct schedule_info *info;
	bool has_queues;
	uint64_t ready;
};

static int take_message(void *ctx, const struct schedule_message *m, struct error *err)
{
	const struct outing *o = ctx;
	struct trial_target target = { .file = o->info->file,
				       .line = 1,
				       .is_own_key = true };
	char *exchange =
		mem_strndup(m->exchange.len ? m->exchange.data : "", m->exchange.len);
	char *key = mem_strndup(m->key.len ? m->key.data : "", m->key.len);
	const struct rule *rule = generation_find(o->engine->current, SCRIPT_SCHEDULE,
						  slice_from(o->info->name));
	target.exchange = strcmp(exchange, "-") == 0 ? "" : exchange;
	target.key = key;
	if (rule)
		target.line = rule->decide_line;
	trial_tell(o->trial, target);
	mem_free(exchange);
	mem_free(key);
	return TIDE_OK;
}

static bool tell_queue(void *ctx, struct slice name, struct schedule_queue *out)
{
	const struct outing *o = ctx;
	*out = (struct schedule_queue){ .ready = o->ready };
	return o->has_queues;
}

static void run(void *ctx, const struct schedule_info *info)
{
	const struct outing *each = ctx;
	struct outing o = *each;
	struct findings *f = o.trial->rules->findings;
	unsigned failures = 0;
	struct error err;
	if (!info->spec->is_active)
		return;
	o.info = info;
	const struct rule *rule = generation_find(o.engine->current, SCRIPT_SCHEDULE,
						  slice_from(info->name));
	if (rule)
		trial_tell_literals(o.trial, rule);
	const struct schedule_broker broker = { &o, take_message, tell_queue };
	const struct schedule_tick tick = { schedule_next(info->spec, BASE_UNIX_MS), 0 };
	static const struct {
		bool has_queues;
		uint64_t ready;
	} worlds[] = { { true, 0 }, { true, 1000 }, { false, 0 } };
	for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
		o.has_queues = worlds[i].has_queues;
		o.ready = worlds[i].ready;
		engine_set_clock(o.engine, tick.ms);
		if (engine_schedule_run(o.engine, slice_from(info->name), &tick, &broker,
					&err) == TIDE_OK)
			continue;
		if (++failures == sizeof(worlds) / sizeof(worlds[0]))
			findings_add_error(f, info->file, err.text);
	}
}

void trial_schedules(const struct trial *t)
{
	uv_loop_t loop;
	struct engine *e = trial_open(t, &loop);
	if (!e)
		return;
	struct outing each = { .trial = t, .engine = e };
	engine_each_schedule(e, run, &each);
	trial_close(e);
}
