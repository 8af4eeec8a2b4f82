#include "service_rules.h"

#include "host/log.h"
#include "broker/unusable.h"
#include "rollout/gate.h"
#include "rollout/history.h"
#include "schedule/scheduler.h"
#include "rules/engine/reload.h"

static void on_reload(void *ctx, const struct error *result)
{
	struct service *s = ctx;
	struct broker *b = s->broker;
	const char *by = reload_asked_by(b->engine);

	if (result && result->code < 0)
		log_error("rules: the change is refused, the old rules go on: %s",
			  result->text);
	else
		log_info("rules: generation %llu is in force, from %s%s%s",
			 (unsigned long long)engine_epoch(b->engine),
			 engine_origin_name(engine_origin(b->engine)),
			 by[0] ? ", asked for by " : "", by);
	history_note(b->history, result);
	if (result->code == TIDE_OK)
		unusable_retry(b);
	scheduler_update(s->scheduler);
}

static void add_status(void *ctx, struct json *out)
{
	struct service *s = ctx;

	scheduler_status(s->scheduler, out);
	unusable_write(s->broker, out);
}

static void on_change(void *ctx)
{
	service_rules_follow(ctx);
}

int service_rules_load(struct service *s, struct bundle *last_good, struct error *err)
{
	const struct broker_config *c = &s->broker->config;
	struct engine_config config = {
		.rules_dir = c->rules_dir,
		.lua_dir = c->lua_dir,
		.memory_max_bytes = c->rules_memory_bytes,
		.call_budget_ms = c->rules_budget_ms,
		.debounce_ms = c->rules_debounce_ms,
		.watch = c->rules_watch,
		.shared_entries_max = c->shared_entries_max,
		.shared_bytes_max = c->shared_bytes_max,
		.last_good = last_good,
		.refusal = &s->rules_refusal,
	};
	struct engine_hooks hooks = { s, on_reload, add_status, on_change };
	struct engine *e;
	int rc = engine_create(&e, s->loop, &config, &hooks, err);

	if (rc == TIDE_OK)
		broker_set_engine(s->broker, e);
	return rc;
}

static bool may_change(const struct service *s)
{
	return s->broker->is_started && !s->broker->is_closing;
}

static void on_change_gate(void *ctx, const struct error *answer)
{
	const struct service *s = ctx;

	if (s->broker->is_closing)
		return;
	if (answer->code < 0)
		reload_refuse(s->broker->engine, ENGINE_FILES, NULL, answer);
	else
		reload_follow(s->broker->engine);
}

void service_rules_follow(struct service *s)
{
	/* The start goes on with what it has checked, and looks again when it is done. */
	s->has_changed_rules = !s->broker->is_started;
	if (may_change(s))
		gate_ask(s->broker->gate, NULL, NULL, on_change_gate, s);
}

static void on_reload_gate(void *ctx, const struct error *answer)
{
	const struct service *s = ctx;
	struct engine *e = s->broker->engine;

	if (s->broker->is_closing)
		return;
	reload_set_asker(e, "SIGHUP");
	if (answer->code < 0)
		reload_refuse(e, ENGINE_RELOAD, NULL, answer);
	else
		reload_start(e, NULL, NULL);
}

void service_rules_reload(struct service *s)
{
	/* A start under way loads them itself. */
	if (may_change(s))
		gate_ask(s->broker->gate, NULL, NULL, on_reload_gate, s);
}
