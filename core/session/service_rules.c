#include "service_rules.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "host/log.h"
#include "broker/queue_figures.h"
#include "broker/declare.h"
#include "broker/unusable.h"
#include "broker/queue.h"
#include "rollout/history.h"
#include "rules/engine/engine_status.h"
#include "schedule/scheduler.h"
#include "service_access.h"

/* Once for each generation: a script that does nothing may be meant to. */
static void tell_forgotten(const struct service *s)
{
	struct buf files = { 0 };

	engine_status_forgotten(s->broker->engine, &files);
	if (buf_len(&files))
		log_info("rules: not active, without a 'match' (match = {} is for "
			 "everything): %s",
			 buf_cstr(&files));
	buf_deinit(&files);
}

static void on_reload(void *ctx, const struct error *result)
{
	struct service *s = ctx;
	struct broker *b = s->broker;
	const char *by = reload_last(b->engine)->asked_by;

	/* No decision of the generation before is remembered. */
	service_access_recheck(s);
	if (result && result->code < 0)
		log_error("rules: change refused, the active rules stay: %s",
			  result->text);
	else
		log_info("rules: generation %llu is active, from %s%s%s, hash %016llx",
			 (unsigned long long)engine_epoch(b->engine),
			 engine_origin_name(engine_origin(b->engine)),
			 by[0] ? ", asked for by " : "", by,
			 (unsigned long long)engine_hash(b->engine));
	history_note(s->rollout.history, result);
	if (result->code == TIDE_OK) {
		tell_forgotten(s);
		declare_policies_renew(b);
		unusable_retry_all(b);
		/* What scripts of deliver/ have refused is asked about again. */
		queue_wake_all(b);
	}
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
	rollout_follow(&((struct service *)ctx)->rollout);
}

int service_rules_load(struct service *s, struct bundle *files,
		       const struct error *refusal, struct error *err)
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
		.secrets_dir = c->secrets_dir,
		.settings = c->rules_settings,
		.check_option = terms_check_option,
		.has_stand_in_secrets = c->is_model,
		.files = files,
		.refusal = refusal,
	};
	struct engine_hooks hooks = { s, on_reload, add_status, on_change,
				      queue_figures_for_scripts(s->broker) };
	struct engine *e;
	int rc = engine_create(&e, s->loop, &config, &hooks, err);

	if (rc == TIDE_OK)
		broker_set_engine(s->broker, e);
	if (rc == TIDE_OK && !c->is_model)
		tell_forgotten(s);
	return rc;
}
