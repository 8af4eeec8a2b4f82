#include "engine.h"

#include <string.h>

#include "base/mem.h"
#include "engine_private.h"
#include "host/log.h"
#include "host/machine.h"
#include "rules/api/draft.h"
#include "rules/api/meters.h"
#include "rules/api/shared.h"
#include "rules/sandbox/breaker.h"

static void free_engine(struct engine *e)
{
	void (*on_closed)(void *ctx) = e->on_closed;
	void *closed_ctx = e->closed_ctx;
	hook_renew(e, NULL);
	generation_destroy(e->former);
	generation_destroy(e->current);
	figures_free(e);
	shared_destroy(e->tide.shared);
	meters_destroy(e->tide.meters);
	bundle_unref(e->reload.directory);
	bundle_unref(e->reload.last.refused);
	watchdog_destroy(e->scripts.watchdog);
	mem_free(e->free_numbers);
	mem_free(e->sink.dests);
	mem_free((char *)e->config.rules_dir);
	mem_free((char *)e->config.lua_dir);
	mem_free((char *)e->config.about);
	mem_free((char *)e->config.secrets_dir);
	secrets_deinit(&e->tide.secrets);
	args_deinit(&e->tide.settings);
	zones_deinit(&e->tide.zones);
	mem_free(e);
	if (on_closed)
		on_closed(closed_ctx);
}

/* Without the configuration's `watch` there is a watch of nothing: closing it is
 * what makes the end of engine_close asynchronous. */
static void start_watch(struct engine *e)
{
	const struct watch_config config = {
		.dirs = { e->config.watch ? e->config.rules_dir : NULL,
			  e->config.watch ? e->config.lua_dir : NULL },
		.debounce_ms = e->config.debounce_ms,
		.on_change = reload_on_change,
		.ctx = e,
	};
	int rc = watch_open(&e->watch, e->loop, &config);

	if (rc != 0)
		log_warn("rules: cannot watch %s: %s; use RULES reload",
			 e->config.rules_dir, uv_strerror(rc));
}

/* Add the tables of the engine to a new state; may raise. */
static void open_api(lua_State *L, void *engine)
{
	struct engine *e = engine;

	draft_open(L);
	script_kind_open(L);
	index_open(L, e);
	strategy_open(L);
	schedule_open(L, e);
}

/* Without its handles of the loop: free_engine ends it. */
static int prepare(struct engine **out, uv_loop_t *loop,
		   const struct engine_config *config, const struct engine_hooks *hooks,
		   struct error *err)
{
	struct engine *e = mem_zalloc(sizeof(*e));

	e->loop = loop;
	e->config = *config;
	e->config.rules_dir = mem_strdup(config->rules_dir);
	e->config.lua_dir = mem_strdup(config->lua_dir);
	e->scripts = (struct generation_config){
		.rules_dir = e->config.rules_dir,
		.lua_dir = e->config.lua_dir,
		.memory_max_bytes = config->memory_max_bytes,
		.tide = &e->tide,
		.open = open_api,
		.open_ctx = e,
	};
	if (hooks)
		e->hooks = *hooks;
	if (e->config.breaker_rest_ms <= 0)
		e->config.breaker_rest_ms = BREAKER_REST_MS;
	TAILQ_INIT(&e->handles);
	STAILQ_INIT(&e->reload.waiters);
	STAILQ_INIT(&e->reload.followers);
	e->tide = (struct api_tide){ .about = "rules", .random_state = machine_random() };
	e->tide.queues = e->hooks.queues;
	e->tide.check_option = config->check_option;
	if (config->about)
		e->tide.about = e->config.about = mem_strdup(config->about);
	if (config->secrets_dir)
		e->config.secrets_dir = mem_strdup(config->secrets_dir);
	e->tide.secrets.dir = e->config.secrets_dir;
	e->tide.secrets.has_stand_ins = config->has_stand_in_secrets;
	if (config->secrets)
		args_copy(&e->tide.secrets.given, config->secrets);
	e->config.secrets = NULL;
	if (config->settings)
		args_copy(&e->tide.settings, config->settings);
	e->config.settings = NULL;
	e->tide.shared =
		shared_create(config->shared_entries_max, config->shared_bytes_max);
	e->tide.meters = meters_create();
	int rc = watchdog_create(&e->scripts.watchdog, config->call_budget_ms,
				 script_on_overrun);
	if (rc != 0) {
		error_set(err, rc, "cannot start the watchdog of the rules: %s",
			  uv_strerror(rc));
		free_engine(e);
		return rc;
	}
	e->config.files = NULL;
	e->config.refusal = NULL;
	*out = e;
	return TIDE_OK;
}

static void start_handles(struct engine *e)
{
	uv_idle_init(e->loop, &e->reload.turn);
	uv_idle_init(e->loop, &e->room.collector);
	e->reload.turn.data = e->room.collector.data = e;
	start_watch(e);
	e->open_parts = 3;
}

int engine_open(struct engine **out, uv_loop_t *loop, const struct engine_config *config,
		const struct engine_hooks *hooks, struct error *err)
{
	int rc = prepare(out, loop, config, hooks, err);

	if (rc == TIDE_OK)
		start_handles(*out);
	return rc;
}

int engine_create(struct engine **out, uv_loop_t *loop,
		  const struct engine_config *config, const struct engine_hooks *hooks,
		  struct error *err)
{
	struct engine *e;
	int rc = prepare(&e, loop, config, hooks, err);

	if (rc != TIDE_OK)
		return rc;
	rc = reload_first(e, config->files, config->refusal, err);
	if (rc != TIDE_OK) {
		free_engine(e);
		return rc;
	}
	start_handles(e);
	*out = e;
	return TIDE_OK;
}

/* The last part ends the engine. */
static void part_closed(struct engine *e)
{
	if (--e->open_parts == 0)
		free_engine(e);
}

struct retirement {
	uv_work_t work;
	struct engine *engine;
	struct generation *generation;
};

static void retire(uv_work_t *work)
{
	struct retirement *r = work->data;

	generation_destroy(r->generation);
}

static void on_retired(uv_work_t *work, int rc)
{
	struct retirement *r = work->data;
	struct engine *e = r->engine;

	mem_free(r);
	e->retiring--;
	part_closed(e);
}

void engine_retire(struct engine *e, struct generation *g)
{
	struct retirement *r;

	if (!g)
		return;
	/* Other references to the files may be this thread's. */
	bundle_unref(g->files);
	g->files = NULL;
	r = mem_zalloc(sizeof(*r));
	r->work.data = r;
	r->engine = e;
	r->generation = g;
	if (uv_queue_work(e->loop, &r->work, retire, on_retired) == 0) {
		e->retiring++;
		e->open_parts++;
		return;
	}
	generation_destroy(g);
	mem_free(r);
}

static void on_watch_closed(void *ctx)
{
	part_closed(ctx);
}

static void on_idle_closed(uv_handle_t *handle)
{
	part_closed(handle->data);
}

void engine_close(struct engine *e, void (*on_closed)(void *ctx), void *ctx)
{
	e->on_closed = on_closed;
	e->closed_ctx = ctx;
	e->is_closing = true;
	reload_close(e);
	uv_close((uv_handle_t *)&e->reload.turn, on_idle_closed);
	uv_close((uv_handle_t *)&e->room.collector, on_idle_closed);
	watch_close(e->watch, on_watch_closed, e);
	/* Another engine's loop may go on: no large generation is freed in its turn. */
	hook_renew(e, NULL);
	circuit_forget_all(e);
	engine_retire(e, e->former);
	engine_retire(e, e->current);
	e->former = e->current = NULL;
	e->carry_at = NULL;
}

struct bundle *engine_files(const struct engine *e)
{
	return e->current->files;
}

uint64_t engine_hash(const struct engine *e)
{
	return e->current->hash;
}

uint64_t engine_epoch(const struct engine *e)
{
	return e->epoch;
}

enum engine_origin engine_origin(const struct engine *e)
{
	return e->origin;
}

void engine_take_recent(struct engine *e, struct script_recent *out)
{
	struct script_recent *recent = &e->current->script.recent;

	*out = *recent;
	recent->sum_ns = 0;
	recent->longest_ns = SCRIPT_LONG_NS;
	recent->longest[0] = '\0';
}

const unsigned *engine_hook_counts(const struct engine *e)
{
	return e->hook_counts;
}

const uint64_t *engine_call_count(const struct engine *e)
{
	return &e->call_count;
}

bool engine_is_not_called(const char *error_text)
{
	return strstr(error_text, "(" CIRCUIT_NOT_CALLED);
}

struct shared *engine_shared(const struct engine *e)
{
	return e->tide.shared;
}

int64_t engine_now_ms(const struct engine *e)
{
	return api_tide_now_ms(&e->tide);
}

uint64_t engine_random_state(const struct engine *e)
{
	return e->tide.random_state;
}

const char *engine_origin_name(enum engine_origin origin)
{
	static const char *const names[] = {
		[ENGINE_START] = "start",       [ENGINE_LAST_GOOD] = "last good",
		[ENGINE_FILES] = "files",       [ENGINE_RELOAD] = "reload",
		[ENGINE_ROLLBACK] = "rollback", [ENGINE_PROMOTE] = "promote",
		[ENGINE_CELL] = "cell",
	};

	return names[origin];
}
