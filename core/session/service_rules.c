#include "service_rules.h"

#include <stdio.h>

#include "base/mem.h"
#include "host/log.h"
#include "broker/unusable.h"
#include "rollout/gate.h"
#include "rollout/history.h"
#include "rollout/shadow.h"
#include "schedule/scheduler.h"

static void on_reload(void *ctx, const struct error *result)
{
	struct service *s = ctx;
	struct broker *b = s->broker;
	const char *by = reload_last(b->engine)->asked_by;

	/* No decision of the generation before is remembered. */
	b->route_version++;
	if (result && result->code < 0)
		log_error("rules: change refused, the active rules stay: %s",
			  result->text);
	else
		log_info("rules: generation %llu is active, from %s%s%s",
			 (unsigned long long)engine_epoch(b->engine),
			 engine_origin_name(engine_origin(b->engine)),
			 by[0] ? ", asked for by " : "", by);
	history_note(s->rollout.history, result);
	if (result->code == TIDE_OK)
		unusable_retry_all(b);
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

struct change {
	struct service *service;
	enum engine_origin origin;
	struct bundle *files; /* a reference; NULL: the directory */
	char by[RELOAD_ASKER_MAX];
	reload_done_fn *on_done;
	void *ctx;
};

static void on_changed(void *ctx, const struct error *result)
{
	struct change *c = ctx;
	struct rollout *r = &c->service->rollout;

	/* Unless it was dropped, or something else put there, meanwhile. */
	if (result->code == TIDE_OK && c->origin == ENGINE_PROMOTE &&
	    shadow_files(r) == c->files)
		shadow_drop(r);
	if (c->on_done)
		c->on_done(c->ctx, result);
	bundle_unref(c->files);
	mem_free(c);
}

static void on_gate(void *ctx, const struct error *answer)
{
	struct change *c = ctx;
	struct engine *e = c->service->broker->engine;
	const struct reload_asker asker = { c->by, on_changed, c };
	struct error err = *answer;

	if (err.code == TIDE_ERULE)
		reload_refuse(e, c->origin, c->files, c->by, &err);
	else if (err.code == TIDE_OK && c->origin == ENGINE_FILES)
		reload_follow(e);
	else if (err.code == TIDE_OK && !c->files)
		reload_start(e, &asker);
	else if (err.code == TIDE_OK)
		err.code = reload_files(e, c->files, c->origin, &asker, &err);
	if (err.code < 0 || c->origin == ENGINE_FILES)
		on_changed(c, &err);
}

void service_rules_change(struct service *s, const struct rules_change *spec)
{
	struct change *c = mem_zalloc(sizeof(*c));
	struct gate *gate = s->rollout.gate;

	c->service = s;
	c->origin = spec->origin;
	c->files = spec->files ? bundle_ref(spec->files) : NULL;
	snprintf(c->by, sizeof(c->by), "%s", spec->by);
	c->on_done = spec->on_done;
	c->ctx = spec->ctx;
	gate_ask(gate, c->files, spec->specs_dir, on_gate, c);
}

static bool may_change(const struct service *s)
{
	return s->broker->is_started && !s->broker->is_closing;
}

void service_rules_follow(struct service *s)
{
	const struct rules_change spec = { .origin = ENGINE_FILES, .by = "" };

	/* The start goes on with what it has checked, and looks again when it is done. */
	s->has_changed_rules = !s->broker->is_started;
	if (may_change(s))
		service_rules_change(s, &spec);
}

void service_rules_reload(struct service *s)
{
	const struct rules_change spec = { .origin = ENGINE_RELOAD, .by = "SIGHUP" };

	/* A start under way loads them itself. */
	if (may_change(s))
		service_rules_change(s, &spec);
}
