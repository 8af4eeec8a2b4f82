#include "broker.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "host/log.h"
#include "rules/engine/rules_dir.h"
#include "rules/api/shared.h"
#include "rules/engine/reload.h"
#include "session/author.h"
#include "clock.h"
#include "shard/dedupe.h"
#include "rollout/gate.h"
#include "rollout/history.h"
#include "queue.h"
#include "rollout/recent.h"
#include "recover.h"
#include "session/reply.h"
#include "route.h"
#include "schedule/scheduler.h"
#include "session/session.h"
#include "rollout/shadow.h"
#include "turn.h"
#include "unusable.h"
#include "vhost.h"

void broker_config_init(struct broker_config *c)
{
	*c = (struct broker_config){
		.rules_dir = "rules",
		.lua_dir = "lua",
		.store = { .url = "embedded",
			   .data_dir = "data",
			   .fsync = STORE_FSYNC_ALWAYS,
			   .connect_timeout_ms = 5000,
			   .command_timeout_ms = 30000 },
		.window_messages = 16384,
		.window_bytes = (size_t)16 << 20,
		.memory_soft_bytes = (size_t)256 << 20,
		.memory_max_bytes = (size_t)1 << 30,
		.dedupe_window_ms = 120000,
		.dedupe_max_bytes = (size_t)256 << 20,
		.unstored_max_bytes = (size_t)64 << 20,
		.vhosts_max = 256,
		.queues_max = 1000000,
		.exchanges_max = 1000000,
		.bindings_max = 1000000,
		.channels_max = 256,
		.consumers_max = 65535,
		.replies_max = 16384,
		.rules_memory_bytes = ENGINE_MEMORY_DEFAULT,
		.rules_budget_ms = 50,
		.rules_debounce_ms = 100,
		.rules_watch = true,
		.shared_entries_max = SHARED_ENTRIES_DEFAULT,
		.shared_bytes_max = SHARED_BYTES_DEFAULT,
	};
}

/* ---- start ---------------------------------------------------------------------- */

static void start_failed(struct broker *b, int status, const char *why)
{
	struct error err;

	error_set(&err, status, "%s", why);
	b->hooks.on_started(b->hooks.ctx, &err);
}

static bool step_failed(struct broker *b, int status, const char *text)
{
	if (status < 0 && status != TIDE_ESHUTDOWN)
		start_failed(b, status, text ? text : error_text(status));
	return status < 0;
}

static void on_rules_change(void *ctx);

static void on_schedules_loaded(struct broker *b, int status, const char *text)
{
	if (step_failed(b, status, text))
		return;
	b->is_started = true;
	b->hooks.on_started(b->hooks.ctx, NULL);
	scheduler_start(b);
	if (b->has_changed_rules)
		on_rules_change(b);
}

static void on_shared_loaded(struct broker *b, int status, const char *text)
{
	if (!step_failed(b, status, text))
		scheduler_load(b, on_schedules_loaded);
}

static void on_shards_recovered(struct broker *b, int status, const char *text)
{
	if (!step_failed(b, status, text))
		shared_sync_load(b, on_shared_loaded);
}

static int create_engine(struct broker *b, struct bundle *last_good, struct error *err);

/* @param e  NULL: none, until another one is set */
static void set_engine(struct broker *b, struct engine *e)
{
	b->engine = e;
	pace_init(&b->pace);
	if (e)
		b->pace.calls = engine_call_count(e);
}

static void tell_of_last_good(struct broker *b)
{
	log_error("rules: '%s' IS BROKEN: %s", b->config.rules_dir,
		  b->rules_refusal.text);
	log_error("rules: serving with the last good generation, %016llx, until the "
		  "directory is put right",
		  (unsigned long long)engine_hash(b->engine));
	history_note_start(b->history, &b->rules_refusal);
}

/* Broken rules at the start: what was in force last serves on. */
static int serve_last_good(struct broker *b)
{
	struct bundle *last = history_last_good(b->history);
	struct error err;

	if (!last) {
		start_failed(b, TIDE_ERULE, b->rules_refusal.text);
		return TIDE_ERULE;
	}
	if (create_engine(b, last, &err) < 0) {
		error_set(&err, TIDE_ERULE,
			  "%s; nor can the last good generation serve: %s",
			  b->rules_refusal.text, err.text);
		start_failed(b, TIDE_ERULE, err.text);
		return TIDE_ERULE;
	}
	tell_of_last_good(b);
	return TIDE_OK;
}

/* It was loaded some time ago, and is not watched any more when the engine is closed. */
static bool has_directory_changed(const struct broker *b, const struct engine *e)
{
	struct bundle *found = rules_dir_scan(b->config.rules_dir, engine_files(e));
	bool has_changed = bundle_hash(found) != engine_hash(e);

	bundle_unref(found);
	return has_changed;
}

/* The rules of the directory do not carry all that Redis has defined. Those that were
 * in force last take their place if they carry more of it. */
static void try_last_good(struct broker *b)
{
	struct engine *directory = b->engine;
	struct bundle *last = history_last_good(b->history);
	struct unusable_count count;
	unsigned before = b->unusable;
	struct error err;

	if (!last || bundle_hash(last) == engine_hash(directory))
		return;
	unusable_count(b, &count);
	unusable_detach_all(b);
	if (before > 1)
		error_set(&b->rules_refusal, TIDE_ERULE, "%s; and %u more are not usable",
			  count.first.text, before - 1);
	else
		b->rules_refusal = count.first;
	if (create_engine(b, last, &err) < 0) {
		log_error("rules: the last good generation cannot serve: %s", err.text);
	} else if (unusable_attach_all(b) < before) {
		b->has_changed_rules |= has_directory_changed(b, directory);
		engine_close(directory, NULL, NULL);
		tell_of_last_good(b);
		return;
	} else {
		unusable_detach_all(b);
		engine_close(b->engine, NULL, NULL);
	}
	set_engine(b, directory);
	b->rules_refusal.code = TIDE_OK;
	unusable_attach_all(b);
}

static void note_accepted(struct broker *b)
{
	const struct error accepted = { .code = TIDE_OK };

	history_note(b->history, &accepted);
}

static void on_definitions(struct broker *b, int status, const char *text)
{
	if (step_failed(b, status, text))
		return;
	/* A start that is given up has no engine to attach to. */
	if (b->is_closing)
		return;
	if (unusable_attach_all(b) > 0 && b->rules_refusal.code == TIDE_OK)
		try_last_good(b);
	note_accepted(b);
	recover_shards(b, on_shards_recovered);
}

static void on_ids_loaded(struct broker *b, int status, const char *text)
{
	if (!step_failed(b, status, text))
		recover_definitions(b, on_definitions);
}

static void start_recovery(struct broker *b)
{
	if (store_is_durable(b->store)) {
		id_lease_load(b, on_ids_loaded);
		return;
	}
	note_accepted(b);
	on_schedules_loaded(b, TIDE_OK, NULL);
}

/* The specs of the directory that is loaded have passed, or not. */
static void on_start_gate(void *ctx, const struct error *answer)
{
	struct broker *b = ctx;

	if (b->is_closing)
		return;
	if (answer->code < 0) {
		engine_close(b->engine, NULL, NULL);
		set_engine(b, NULL);
		b->rules_refusal = *answer;
		if (serve_last_good(b) < 0)
			return;
	}
	start_recovery(b);
}

static void on_history(struct broker *b, int status, const char *text)
{
	if (status == TIDE_ESHUTDOWN || b->is_closing)
		return;
	if (status < 0)
		start_failed(b, status, text ? text : error_text(status));
	else if (b->engine)
		gate_ask(b->gate, on_start_gate, b);
	else if (serve_last_good(b) == TIDE_OK)
		start_recovery(b);
}

static void start_loading(struct broker *b)
{
	b->is_loading = true;
	if (store_is_durable(b->store))
		history_load(b->history, on_history);
	else
		on_history(b, TIDE_OK, NULL);
}

static void on_store_state(void *ctx, enum store_state state, const char *why)
{
	struct broker *b = ctx;

	snprintf(b->store_state_why, sizeof(b->store_state_why), "%s", why ? why : "");
	if (state == STORE_FAILED)
		start_failed(b, TIDE_ESTORE, b->store_state_why);
	else if (state == STORE_UP && !b->is_loading)
		start_loading(b);
}

static void on_reload(void *ctx, const struct error *result)
{
	struct broker *b = ctx;
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
	scheduler_update(b);
}

static void add_status(void *ctx, struct json *out)
{
	scheduler_status(ctx, out);
	unusable_write(ctx, out);
}

static void on_change_gate(void *ctx, const struct error *answer)
{
	struct broker *b = ctx;

	if (b->is_closing)
		return;
	if (answer->code < 0)
		reload_refuse(b->engine, ENGINE_FILES, NULL, answer);
	else
		reload_follow(b->engine);
}

static void on_rules_change(void *ctx)
{
	struct broker *b = ctx;

	/* The start goes on with what it has checked, and looks again when it is done. */
	b->has_changed_rules = !b->is_started;
	if (b->is_started && !b->is_closing)
		gate_ask(b->gate, on_change_gate, b);
}

static void on_reload_gate(void *ctx, const struct error *answer)
{
	struct broker *b = ctx;

	if (b->is_closing)
		return;
	reload_set_asker(b->engine, AUTHOR_SIGNAL);
	if (answer->code < 0)
		reload_refuse(b->engine, ENGINE_RELOAD, NULL, answer);
	else
		reload_start(b->engine, NULL, NULL);
}

void broker_reload_rules(struct broker *b)
{
	/* A start that goes on loads them anyhow. */
	if (b->is_started && !b->is_closing)
		gate_ask(b->gate, on_reload_gate, b);
}

static void init_parts(struct broker *b)
{
	id_lease_init(&b->ids, b->config.node);
	heap_init(&b->timers);
	heap_init(&b->waits);
	TAILQ_INIT(&b->sessions);
	TAILQ_INIT(&b->active);
	TAILQ_INIT(&b->settling);
	TAILQ_INIT(&b->routes);
	TAILQ_INIT(&b->unbinding);
	TAILQ_INIT(&b->env.closing);
	TAILQ_INIT(&b->idle_vhosts);
	pace_init(&b->pace);
	b->scheduler = scheduler_create();
	msg_pool_init(&b->msgs);
	b->config.store.msgs = &b->msgs;
	pool_init(&b->replies, sizeof(struct reply), 16384);
	pool_init(&b->env.entries, sizeof(struct entry), 16384);
	pool_init(&b->env.lanes, sizeof(struct lane), 1024);
	b->env.timers = &b->timers;
	b->env.window_messages = b->config.window_messages;
	b->env.window_bytes = b->config.window_bytes;
	b->env.memory_soft_bytes = b->config.memory_soft_bytes;
	b->history = history_create(b);
	b->gate = gate_create(b);
	b->recent = recent_create(b->config.replay_payloads);
	b->journal = b->env.journal = journal_create(&b->env);
	clock_update(b);
	b->dedupe = b->env.dedupe = dedupe_create(&b->env, b->config.dedupe_max_bytes);
	b->started_unix_ms = b->now_ms;
}

static void free_parts(struct broker *b)
{
	scheduler_destroy(b->scheduler);
	while (!TAILQ_EMPTY(&b->env.closing))
		shard_close_some(TAILQ_FIRST(&b->env.closing));
	pool_deinit(&b->replies);
	pool_deinit(&b->env.entries);
	pool_deinit(&b->env.lanes);
	heap_deinit(&b->timers);
	heap_deinit(&b->waits);
	journal_destroy(b->journal);
	dedupe_destroy(b->dedupe);
	history_destroy(b->history);
	gate_destroy(b->gate);
	recent_destroy(b->recent);
	route_destroy(b->route);
	msg_pool_deinit(&b->msgs);
	mem_free(b);
}

static int create_engine(struct broker *b, struct bundle *last_good, struct error *err)
{
	struct engine_config config = {
		.rules_dir = b->config.rules_dir,
		.lua_dir = b->config.lua_dir,
		.memory_max_bytes = b->config.rules_memory_bytes,
		.call_budget_ms = b->config.rules_budget_ms,
		.debounce_ms = b->config.rules_debounce_ms,
		.watch = b->config.rules_watch,
		.shared_entries_max = b->config.shared_entries_max,
		.shared_bytes_max = b->config.shared_bytes_max,
		.last_good = last_good,
		.refusal = &b->rules_refusal,
	};
	struct engine_hooks hooks = { b, on_reload, add_status, on_rules_change };
	struct engine *e;
	int rc = engine_create(&e, b->loop, &config, &hooks, err);

	if (rc == TIDE_OK)
		set_engine(b, e);
	return rc;
}

/* A directory that is not there is a wrong --rules, and no broken rule. */
static bool may_have_last_good(const struct broker *b, int status)
{
	struct stat st;

	return status == TIDE_ERULE && strcmp(b->config.store.url, "none") != 0 &&
	       stat(b->config.rules_dir, &st) == 0 && S_ISDIR(st.st_mode);
}

static int start_parts(struct broker *b, struct error *err)
{
	struct store_hooks hooks = { b, on_store_state };
	struct vhost *v;
	int rc = create_engine(b, NULL, err);

	if (rc < 0 && !may_have_last_good(b, rc))
		return rc;
	if (rc < 0)
		b->rules_refusal = *err;
	rc = store_open(&b->store, b->loop, &b->config.store, &hooks, err);
	if (rc < 0) {
		if (b->engine)
			engine_close(b->engine, NULL, NULL);
		return rc;
	}
	if (store_is_durable(b->store))
		b->env.store = b->store;
	return vhost_open(b, SLICE("/"), &v, err);
}

int broker_create(struct broker **out, uv_loop_t *loop,
		  const struct broker_config *config, const struct broker_hooks *hooks,
		  struct error *err)
{
	struct broker *b = mem_zalloc(sizeof(*b));
	int rc;

	b->loop = loop;
	b->config = *config;
	b->hooks = *hooks;
	init_parts(b);
	rc = start_parts(b, err);
	if (rc < 0) {
		free_parts(b);
		return rc;
	}
	turn_start(b);
	*out = b;
	return TIDE_OK;
}

/* ---- stop ----------------------------------------------------------------------- */

void broker_drain(struct broker *b)
{
	b->is_draining = true;
	/* GETs that wait are answered with nothing, at the end of this turn. */
	for (size_t i = 0; i < b->waits.count; i++)
		b->waits.nodes[i]->key = b->mono_ms;
}

bool broker_is_idle(const struct broker *b)
{
	return !b->env.store || (journal_is_idle(b->journal) && scheduler_is_idle(b) &&
				 shared_sync_is_idle(b));
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct broker *b = handle->data;
	void (*on_closed)(void *ctx) = b->hooks.on_closed;
	void *ctx = b->hooks.ctx;

	if (--b->handles > 0)
		return;
	free_parts(b);
	on_closed(ctx);
}

static void on_engine_closed(void *ctx)
{
	struct broker *b = ctx;

	uv_close((uv_handle_t *)&b->timer, on_handle_closed);
	uv_close((uv_handle_t *)&b->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&b->check, on_handle_closed);
	uv_close((uv_handle_t *)&b->idle, on_handle_closed);
}

/* The answers to what was under way have been given: nothing refers to the
 * model any more. */
static void on_store_closed(void *ctx)
{
	struct broker *b = ctx;
	struct vhost *v, *next;

	b->store = NULL;
	HASH_ITER (hh, b->vhosts, v, next)
		vhost_destroy(v);
	if (b->engine)
		engine_close(b->engine, on_engine_closed, b);
	else
		on_engine_closed(b);
}

void broker_close(struct broker *b, int64_t grace_ms)
{
	if (b->is_closing)
		return;
	id_lease_end(b);
	b->is_closing = b->is_draining = true;
	uv_prepare_stop(&b->prepare);
	uv_check_stop(&b->check);
	uv_timer_stop(&b->timer);
	uv_idle_stop(&b->idle);
	shadow_drop(b);
	replay_cancel(b);
	gate_destroy(b->gate);
	b->gate = NULL;
	store_close(b->store, grace_ms, on_store_closed, b);
}

void broker_close_now(struct broker *b)
{
	broker_close(b, 0);
	if (b->store)
		store_hurry(b->store);
}
