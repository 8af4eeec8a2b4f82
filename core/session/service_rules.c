#include "service_rules.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "host/log.h"
#include "broker/queue_figures.h"
#include "broker/declare.h"
#include "broker/unusable.h"
#include "broker/wake.h"
#include "rollout/trials.h"
#include "rollout/history.h"
#include "rollout/shadow.h"
#include "rules/engine/engine_status.h"
#include "rules/sandbox/source.h"
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
		wake_all(b);
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
	service_rules_follow(ctx);
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

void service_rules_tell_unread(struct service *s, const char *unread)
{
	uint64_t hash = source_hash(unread, strlen(unread));

	if (unread[0] && hash != s->unread)
		log_warn("rules: %s", unread);
	s->unread = hash;
}

/* Tried in another process, then by their specs, then marked in Redis as being loaded,
 * then loaded: each step may take many turns. */
struct change {
	struct service *service;
	enum engine_origin origin;
	struct bundle *files; /* a reference; NULL: not yet read of the directory */
	char *specs_dir;      /* may be NULL */
	char by[RELOAD_ASKER_MAX];
	reload_done_fn *on_done;
	void *ctx;
	bool is_loading;            /* counted in service.loading */
	const struct bundle *known; /* of the directory when it was asked for */
	uint64_t epoch;             /* likewise */
};

/* A rollback or a promotion is not queued behind it. Specs may take long: others may
 * change the rules then. */
static void set_loading(struct change *c, bool is_loading)
{
	if (c->origin == ENGINE_FILES || c->is_loading == is_loading)
		return;
	c->is_loading = is_loading;
	if (is_loading)
		c->service->loading++;
	else
		c->service->loading--;
}

static bool is_directory(const struct change *c)
{
	return c->origin == ENGINE_FILES || c->origin == ENGINE_RELOAD;
}

static void supersede(struct change *c)
{
	struct error why;

	error_set(&why, TIDE_EBUSY, "other rules became active meanwhile, by %s",
		  engine_origin_name(c->origin));
	trials_supersede(c->service->rollout.trials, &why);
}

static void on_changed(void *ctx, const struct error *result)
{
	struct change *c = ctx;
	struct rollout *r = &c->service->rollout;

	set_loading(c, false);
	/* Unless it was dropped, or something else put there, meanwhile. */
	if (result->code == TIDE_OK && c->origin == ENGINE_PROMOTE &&
	    shadow_files(r) == c->files)
		shadow_drop(r);
	if (result->code == TIDE_OK && !is_directory(c))
		supersede(c);
	if (c->on_done)
		c->on_done(c->ctx, result);
	bundle_unref(c->files);
	mem_free(c->specs_dir);
	mem_free(c);
}

static void refuse(struct change *c, const struct error *why)
{
	if (why->code == TIDE_ERULE)
		reload_refuse(c->service->broker->engine, c->origin, c->files, c->by,
			      why);
	on_changed(c, why);
}

/* Others may have loaded these files of the directory meanwhile. What is active now may
 * be other files, after a rollback: they stay. */
static bool is_superseded(const struct change *c)
{
	const struct engine *e = c->service->broker->engine;
	const struct bundle *known = reload_known_files(e);

	return (engine_epoch(e) != c->epoch || known != c->known) && known && c->files &&
	       bundle_hash(known) == bundle_hash(c->files);
}

static void load(void *ctx, int status, const char *text)
{
	struct change *c = ctx;
	struct service *s = c->service;
	struct engine *e = s->broker->engine;
	const struct reload_asker asker = { c->by, on_changed, c };
	struct error err = { .code = TIDE_OK };

	if (s->broker->is_closing)
		error_set(&err, TIDE_ESHUTDOWN, "the broker is stopping");
	else if (c->origin == ENGINE_FILES && is_superseded(c))
		reload_unchanged(e);
	else if (c->origin == ENGINE_FILES)
		reload_follow(e, c->files);
	else if (c->origin == ENGINE_RELOAD)
		reload_start(e, c->files, &asker);
	else
		err.code = reload_files(e, c->files, c->origin, &asker, &err);
	if (err.code < 0 || c->origin == ENGINE_FILES)
		on_changed(c, &err);
	else
		set_loading(c, false);
}

static void on_gate(void *ctx, struct bundle *files, const struct error *answer)
{
	struct change *c = ctx;

	if (files)
		bundle_ref(files);
	bundle_unref(c->files);
	c->files = files;
	set_loading(c, true);
	if (answer->code < 0)
		refuse(c, answer);
	else if (!files)
		load(c, TIDE_OK, NULL);
	else
		history_note_loading(c->service->rollout.history, bundle_hash(files),
				     load, c);
}

static void on_tried(void *ctx, const struct trial_result *result)
{
	struct change *c = ctx;
	const struct spec_question question = { result->files, is_directory(c),
						c->specs_dir };

	struct error err = result->error;

	if (!c->files && result->files)
		c->files = bundle_ref(result->files);
	if (err.code == TIDE_OK && c->origin == ENGINE_FILES && result->files &&
	    !result->is_known)
		err.code = history_check_loading(c->service->rollout.history,
						 bundle_hash(result->files), &err);
	if (err.code < 0) {
		refuse(c, &err);
		return;
	}
	if (is_directory(c))
		service_rules_tell_unread(c->service, result->unread);
	if (c->origin == ENGINE_FILES && (result->is_known || is_superseded(c))) {
		reload_unchanged(c->service->broker->engine);
		on_changed(c, &result->error);
		return;
	}
	set_loading(c, false);
	trials_test(c->service->rollout.trials, &question, on_gate, c);
}

void service_rules_change(struct service *s, const struct rules_change *spec)
{
	const struct engine *e = s->broker->engine;
	struct change *c;
	struct trial_question trial = {
		.dir = s->broker->config.rules_dir,
		.files = spec->files,
		.known = reload_known_files(e),
		.framework = reload_framework(e),
	};

	if (spec->files && s->loading > 0) {
		struct error err;

		error_set(&err, TIDE_EBUSY, "other rules are being loaded; try again");
		if (spec->on_done)
			spec->on_done(spec->ctx, &err);
		return;
	}
	c = mem_zalloc(sizeof(*c));
	c->service = s;
	c->origin = spec->origin;
	c->epoch = engine_epoch(e);
	c->known = trial.known;
	c->files = spec->files ? bundle_ref(spec->files) : NULL;
	c->specs_dir = spec->specs_dir ? mem_strdup(spec->specs_dir) : NULL;
	snprintf(c->by, sizeof(c->by), "%s", spec->by);
	c->on_done = spec->on_done;
	c->ctx = spec->ctx;
	set_loading(c, true);
	trials_load(s->rollout.trials, &trial, on_tried, c);
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
