#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "service_start.h"
#include "host/log.h"
#include "broker/declare.h"
#include "broker/recover.h"
#include "broker/unusable.h"
#include "rollout/trials.h"
#include "rollout/history.h"
#include "rollout/upload.h"
#include "rules/sandbox/bundle.h"
#include "rules/engine/rules_dir.h"
#include "schedule/scheduler.h"
#include "service_users.h"
#include "base/mem.h"
#include "broker/queue_figures.h"
#include "broker/queue.h"
#include "rules/engine/engine_status.h"

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

	char hash[32];

	/* No decision of the generation before is remembered. */
	service_users_recheck(s);
	snprintf(hash, sizeof(hash), "%016llx",
		 (unsigned long long)engine_hash(b->engine));
	if (result && result->code < 0) {
		log_error("rules: change refused, the active rules stay: %s",
			  result->text);
		EVENT_TELL(b, EVENT_RULES_REFUSED, slice_from(result->text));
	} else {
		log_info("rules: generation %llu is active, from %s%s%s, hash %s",
			 (unsigned long long)engine_epoch(b->engine),
			 engine_origin_name(engine_origin(b->engine)),
			 by[0] ? ", asked for by " : "", by, hash);
		EVENT_TELL(b, EVENT_RULES_ACTIVATED, slice_from(hash),
			   slice_from(engine_origin_name(engine_origin(b->engine))),
			   slice_from(by));
	}
	history_note(s->rollout.history, result);
	if (result->code == TIDE_OK) {
		tell_forgotten(s);
		declare_policies_renew(b);
		unusable_retry_all(b);
		/* Messages that scripts of deliver/ have refused are asked about
		 * again. */
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

static int load_rules(struct service *s, struct bundle *files,
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

static void start_failed(struct service *s, int status, const char *why)
{
	struct error err;

	error_set(&err, status, "%s", why);
	s->hooks.on_started(s->hooks.ctx, &err);
}

static void on_explained(void *ctx, int status, const char *text)
{
	struct service *s = ctx;

	if (status != TIDE_ESHUTDOWN)
		start_failed(s, TIDE_ESTORE, text ? text : s->start_refusal.text);
}

/* The store learns more by asking than Redis said. */
static bool step_failed(struct service *s, int status, const char *text)
{
	const char *why = text ? text : error_text(status);

	if (status == TIDE_ESTORE) {
		error_set(&s->start_refusal, status, "%s", why);
		store_trouble_ask(s->broker->store, on_explained, s);
	} else if (status < 0 && status != TIDE_ESHUTDOWN) {
		start_failed(s, status, why);
	}
	return status < 0;
}

static void on_schedules_loaded(void *ctx, int status, const char *text)
{
	struct service *s = ctx;
	char node[EVENT_NUMBER_MAX];

	if (step_failed(s, status, text))
		return;
	store_confirm_begin(s->broker->store);
	s->broker->is_started = true;
	EVENT_TELL(s->broker, EVENT_BROKER_STARTED,
		   event_number(s->broker->config.node, node));
	service_users_recheck(s);
	service_users_check_open(s);
	s->hooks.on_started(s->hooks.ctx, NULL);
	scheduler_start(s->scheduler);
	if (s->rollout.has_changed_rules)
		rollout_follow(&s->rollout);
}

static void on_shared_loaded(void *ctx, int status, const char *text)
{
	struct service *s = ctx;

	if (!step_failed(s, status, text))
		scheduler_load(s->scheduler, on_schedules_loaded, s);
}

static void on_shards_recovered(void *ctx, int status, const char *text)
{
	struct service *s = ctx;

	if (!step_failed(s, status, text))
		shared_sync_load(s->broker, on_shared_loaded, s);
}

static void tell_of_last_good(struct service *s)
{
	log_error("rules: the rules directory '%s' is broken: %s",
		  s->broker->config.rules_dir, s->rules_refusal.text);
	log_error("rules: serving with the last good generation, %016llx, until the "
		  "directory is repaired",
		  (unsigned long long)engine_hash(s->broker->engine));
	history_note_start(s->rollout.history, &s->rules_refusal);
}

/* The rules directory is broken: the last good generation serves. */
static int serve_last_good(struct service *s)
{
	struct bundle *last = history_last_good(s->rollout.history);
	struct error err;

	if (!last) {
		start_failed(s, TIDE_ERULE, s->rules_refusal.text);
		return TIDE_ERULE;
	}
	if (load_rules(s, last, &s->rules_refusal, &err) < 0) {
		error_set(&err, TIDE_ERULE,
			  "%s; the last good generation cannot serve either: %s",
			  s->rules_refusal.text, err.text);
		start_failed(s, TIDE_ERULE, err.text);
		return TIDE_ERULE;
	}
	tell_of_last_good(s);
	return TIDE_OK;
}

/* The engine was loaded some time ago, and watches no more once it is closed. */
static bool has_directory_changed(const struct service *s, const struct engine *e)
{
	struct bundle *found =
		rules_dir_scan(s->broker->config.rules_dir, engine_files(e));
	bool has_changed = bundle_hash(found) != engine_hash(e);

	bundle_unref(found);
	return has_changed;
}

/* The active rules are asked what each is to do, and do it. Returns how many they do not
 * carry. */
static unsigned attach_all(struct broker *b)
{
	declare_policies_begin(b);
	return unusable_attach_all(b);
}

/* The rules directory does not carry all definitions of Redis. The last good generation
 * serves instead, if it carries more of them. */
static void try_last_good(struct service *s)
{
	struct engine *directory = s->broker->engine;
	struct bundle *last = history_last_good(s->rollout.history);
	struct unusable_count count;
	unsigned before = s->broker->unusable;
	struct error err;

	if (!last || bundle_hash(last) == engine_hash(directory))
		return;
	unusable_count(s->broker, &count);
	definition_detach_all(s->broker, RULESET_ACTIVE);
	if (before > 1)
		error_set(&s->rules_refusal, TIDE_ERULE, "%s; %u more cannot be used",
			  count.first.text, before - 1);
	else
		s->rules_refusal = count.first;
	if (load_rules(s, last, &s->rules_refusal, &err) < 0) {
		log_error("rules: the last good generation cannot serve: %s", err.text);
	} else if (attach_all(s->broker) < before) {
		s->rollout.has_changed_rules |= has_directory_changed(s, directory);
		engine_close(directory, NULL, NULL);
		tell_of_last_good(s);
		return;
	} else {
		definition_detach_all(s->broker, RULESET_ACTIVE);
		engine_close(s->broker->engine, NULL, NULL);
	}
	broker_set_engine(s->broker, directory);
	s->rules_refusal.code = TIDE_OK;
	attach_all(s->broker);
}

static void note_accepted(struct service *s)
{
	const struct error accepted = { .code = TIDE_OK };

	history_note(s->rollout.history, &accepted);
}

static void on_definitions(void *ctx, int status, const char *text)
{
	struct service *s = ctx;

	if (step_failed(s, status, text))
		return;
	/* A start that is given up has no engine to attach to. */
	if (s->broker->is_closing)
		return;
	if (attach_all(s->broker) > 0 && s->rules_refusal.code == TIDE_OK)
		try_last_good(s);
	note_accepted(s);
	recover_shards(s->broker, on_shards_recovered, s);
}

static void on_ids_loaded(void *ctx, int status, const char *text)
{
	struct service *s = ctx;

	if (!step_failed(s, status, text))
		recover_definitions(s->broker, on_definitions, s);
}

static void start_recovery(struct service *s)
{
	if (store_is_durable(s->broker->store)) {
		id_lease_load(s->broker, on_ids_loaded, s);
		return;
	}
	note_accepted(s);
	on_schedules_loaded(s, TIDE_OK, NULL);
}

/* The specs of the directory that is loaded have passed, or not. */
static void on_start_gate(void *ctx, struct bundle *files, const struct error *answer)
{
	struct service *s = ctx;

	if (s->broker->is_closing)
		return;
	if (answer->code < 0) {
		engine_close(s->broker->engine, NULL, NULL);
		broker_set_engine(s->broker, NULL);
		s->rules_refusal = *answer;
		if (serve_last_good(s) < 0)
			return;
	}
	start_recovery(s);
}

static void ask_gate(struct service *s)
{
	struct engine *e = s->broker->engine;
	const struct spec_question q = { .files = engine_files(e), .is_directory = true };

	trials_test(s->rollout.trials, &q, on_start_gate, s);
}

static void start_with_last_good(struct service *s)
{
	if (serve_last_good(s) == TIDE_OK)
		start_recovery(s);
}

/* Redis knows what is loaded now, should this process end of it. */
static void on_loading_noted(void *ctx, int status, const char *text)
{
	struct service *s = ctx;
	struct bundle *files = s->directory;
	int rc;

	if (s->broker->is_closing)
		return;
	if (status < 0)
		log_warn("rules: Redis cannot be told which rules are being loaded: %s",
			 text ? text : error_text(status));
	rc = load_rules(s, files, NULL, &s->rules_refusal);
	if (rc == TIDE_OK)
		s->rollout.has_changed_rules |=
			has_directory_changed(s, s->broker->engine);
	s->directory = NULL;
	bundle_unref(files);
	if (rc == TIDE_OK)
		ask_gate(s);
	else
		start_with_last_good(s);
}

static void on_history(void *ctx, int status, const char *text)
{
	struct service *s = ctx;
	struct history *h = s->rollout.history;
	struct bundle *files = s->directory;

	if (status == TIDE_ESHUTDOWN || s->broker->is_closing)
		return;
	if (step_failed(s, status, text))
		return;
	if (s->rules_refusal.code < 0 ||
	    (files &&
	     history_check_loading(h, bundle_hash(files), &s->rules_refusal) < 0))
		start_with_last_good(s);
	else if (!files)
		on_loading_noted(s, TIDE_OK, NULL);
	else
		history_note_loading(h, bundle_hash(files), on_loading_noted, s);
}

static void start_loading(struct service *s)
{
	s->is_loading = true;
	if (store_is_durable(s->broker->store))
		history_load(s->rollout.history, on_history, s);
	else
		on_history(s, TIDE_OK, NULL);
}

static void store_lost(struct service *s)
{
	struct error err;

	error_set(&err, TIDE_ESTORE, "%s", s->store_state_why);
	s->hooks.on_lost(s->hooks.ctx, &err);
}

static void on_store_state(void *ctx, enum store_state state, const char *why)
{
	struct service *s = ctx;

	snprintf(s->store_state_why, sizeof(s->store_state_why), "%s", why ? why : "");
	if (state == STORE_FAILED && s->is_loading)
		store_lost(s);
	else if (state == STORE_FAILED)
		start_failed(s, TIDE_ESTORE, s->store_state_why);
	else if (state == STORE_UP && !s->is_loading)
		start_loading(s);
	else if (state == STORE_UP)
		id_lease_hurry(s->broker);
}

/* A directory that is not there is a wrong --rules, and no broken rule. */
static bool may_have_last_good(const struct broker_config *c, int status)
{
	struct stat st;

	return status == TIDE_ERULE && strcmp(c->store.url, "none") != 0 &&
	       stat(c->rules_dir, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Load the rules when it is known whether a broker has died of them. */
static void on_start_tried(void *ctx, const struct trial_result *result)
{
	struct service *s = ctx;

	s->rules_refusal = result->error;
	if (result->error.code < 0)
		return;
	if (result->files)
		s->directory = bundle_ref(result->files);
	rollout_tell_unread(&s->rollout, result->unread);
}

static void on_store_gap(void *ctx, unsigned lane)
{
	struct service *s = ctx;

	unusable_read_anew(s->broker, lane);
	if (lane != store_meta_lane(s->broker->store))
		return;
	definition_write_all(s->broker);
	user_change_write_all(&s->broker->users, s->broker->store);
}

static void on_store_heard(void *ctx, uint64_t now_ns)
{
	struct service *s = ctx;

	turn_time_enter(&s->broker->turn_time, TURN_STORE, 0, now_ns);
}

int service_start(struct service *s, struct error *err)
{
	struct store_hooks hooks = { s, on_store_state, on_store_heard, on_store_gap };
	struct broker *b = s->broker;
	const struct trial_question trial = { .dir = b->config.rules_dir };
	struct store *store;
	int rc;

	/* The loop is not running yet: the load may block. */
	upload_remove_left(&b->config);
	trials_load_now(s->rollout.trials, &trial, on_start_tried, s);
	*err = s->rules_refusal;
	if (err->code < 0 && !may_have_last_good(&b->config, err->code))
		return err->code;
	b->config.store.msgs = &b->msgs;
	rc = store_open(&store, s->loop, &b->config.store, &hooks, err);
	if (rc == TIDE_OK)
		broker_set_store(b, store);
	return rc;
}
