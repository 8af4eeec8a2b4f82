#include "engine.h"

#include "../base/log.h"
#include "../base/mem.h"
#include "api_shared.h"
#include "engine_private.h"
#include "shared.h"

/* ---- handles ------------------------------------------------------------------ */

static size_t take_number(struct engine *e)
{
	if (e->free_count > 0)
		return e->free_numbers[--e->free_count];
	return e->number_count++;
}

static void give_number(struct engine *e, size_t number)
{
	if (e->free_count == e->free_cap) {
		e->free_cap = e->free_cap * 2 + 16;
		e->free_numbers = mem_realloc(e->free_numbers,
					      e->free_cap * sizeof(*e->free_numbers));
	}
	e->free_numbers[e->free_count++] = number;
}

int engine_check_room(struct engine *e, struct error *err)
{
	struct script_state *s = &e->current->script;

	/* Found by a call that was refused memory, after a whole collection: to go on
	 * would be a collection for each call. */
	if (!s->is_exhausted)
		return TIDE_OK;
	return error_set(
		err, TIDE_ELIMIT,
		"the scripts' memory is used up: %zu of %zu bytes; give them more with "
		"--rules-memory",
		s->memory_bytes, s->memory_max_bytes);
}

int handle_open(struct handle *h, struct engine *e, enum script_kind kind,
		struct slice name, const struct args *options, const char *user,
		struct error *err)
{
	struct rule *rule;
	int status = generation_get(e->current, kind, name, &rule, err);
	if (status == TIDE_OK)
		status = engine_check_room(e, err);
	if (status != TIDE_OK)
		return status;
	size_t number = take_number(e);
	status = generation_use(e->current, number, rule, options, err);
	if (status != TIDE_OK) {
		give_number(e, number);
		return status;
	}
	h->engine = e;
	h->number = number;
	h->kind = kind;
	h->name = mem_strndup(name.data, name.len);
	h->user = mem_strdup(user);
	args_init(&h->options);
	if (options)
		args_copy(&h->options, options);
	TAILQ_INSERT_TAIL(&e->handles, h, link);
	return TIDE_OK;
}

void handle_close(struct handle *h)
{
	struct engine *e = h->engine;
	struct use *use = handle_use(h);
	((struct rule *)use->rule)->stats.cache_hits += h->cache_hits;
	build_forget(e, h);
	carry_forget(h);
	TAILQ_REMOVE(&e->handles, h, link);
	generation_release(e->current, h->number);
	give_number(e, h->number);
	args_deinit(&h->options);
	mem_free(h->name);
	mem_free(h->user);
}

int handle_install(struct handle *h, struct generation *g, struct error *err)
{
	struct error cause;
	struct rule *rule = generation_find(g, h->kind, slice_from(h->name));
	if (!rule)
		return error_set(err, TIDE_ERULE, "%s/%s.lua: is gone, but %s uses it",
				 script_kind_name(h->kind), h->name, h->user);
	int status = generation_use(g, h->number, rule, &h->options, &cause);
	if (status != TIDE_OK)
		return error_set(err, TIDE_ERULE, "%s (for %s)", cause.text, h->user);
	carry_note(h, g);
	return TIDE_OK;
}

/* Scripts that keep more and more would fail for ever, and all others with them:
 * the next generation begins empty. */
static void start_afresh(struct engine *e)
{
	if (e->ending_epoch == e->epoch)
		return;
	e->ending_epoch = e->epoch;
	log_warn("rules: what scripts keep has used up their %zu KiB; they are loaded "
		 "anew",
		 e->config.memory_max_bytes / 1024);
	e->must_build = true;
	watch_poke(e->watch);
}

/* ---- calls ---------------------------------------------------------------------- */

static int64_t monotonic_ms(void)
{
	return (int64_t)(uv_hrtime() / 1000000);
}

static int refuse_call(struct engine *e, struct rule *rule, struct error *err)
{
	rule->stats.skipped += !e->dry_run;
	return error_set(err, TIDE_ERULE,
			 "%s (not called again: it fails too often; tried every %d s)",
			 rule->stats.last_error,
			 (int)((e->config.breaker_rest_ms + 999) / 1000));
}

static void tell_of_breaker(const struct engine *e, const struct rule *rule)
{
	if (rule->stats.breaker.is_open)
		log_error("rules: %s fails too often and is not called for %d ms at a "
			  "time; the last error: %s",
			  rule->file, (int)e->config.breaker_rest_ms,
			  rule->stats.last_error);
	else
		log_info("rules: %s works again", rule->file);
}

int use_decide(struct engine *e, const struct use *use, lua_CFunction body, void *ctx,
	       struct error *err)
{
	struct rule *rule = (struct rule *)use->rule;
	struct script_call call = { .file = rule->file,
				    .stats = &rule->stats,
				    .is_decision = true,
				    .body = body,
				    .ctx = ctx };
	bool was_open = rule->stats.breaker.is_open;
	if (was_open && !breaker_allows(&rule->stats.breaker, monotonic_ms(),
					e->config.breaker_rest_ms))
		return refuse_call(e, rule, err);
	/* A dry run leaves no trace, in the breaker neither. */
	if (e->dry_run)
		call.stats = NULL;
	e->call_count++;
	uint64_t started_ns = e->dry_run ? uv_hrtime() : 0;
	int status = script_enter(&e->current->script, &call, err);
	if (e->dry_run)
		dry_run_count(e->dry_run, rule->file, uv_hrtime() - started_ns);
	if (was_open != rule->stats.breaker.is_open)
		tell_of_breaker(e, rule);
	if (status != TIDE_OK && e->current->script.is_exhausted)
		start_afresh(e);
	return status;
}

const uint64_t *engine_call_count(const struct engine *e)
{
	return &e->call_count;
}

/* ---- generations ---------------------------------------------------------------- */

void engine_open_api(lua_State *L, void *engine)
{
	index_open(L, engine);
	strategy_open(L);
	draft_open(L);
	schedule_open(L, engine);
	sandbox_push_global(L, "tide");
	api_shared_add(L, engine);
	lua_pop(L, 1);
}

/* Counters go on; the last error stays only while the script is the same, and no
 * circuit stays open. */
static void inherit_stats(struct generation *to, const struct generation *from)
{
	for (size_t i = 0; i < to->rule_count; i++) {
		struct rule *rule = to->rules[i];
		const struct rule *old =
			generation_find(from, rule->kind, slice_from(rule->name));
		if (!old)
			continue;
		rule->stats = old->stats;
		rule->stats.breaker = (struct breaker){ .is_open = false };
		if (old->hash != rule->hash) {
			rule->stats.last_error[0] = '\0';
			rule->stats.last_error_unix_ms = 0;
		}
	}
}

static bool is_of_directory(enum engine_origin origin)
{
	return origin == ENGINE_START || origin == ENGINE_FILES ||
	       origin == ENGINE_RELOAD;
}

static void put_in_force(struct engine *e, struct generation *next,
			 enum engine_origin origin)
{
	struct generation *old = e->current;
	if (old)
		inherit_stats(next, old);
	e->current = next;
	e->origin = e->attempt = origin;
	if (is_of_directory(origin)) {
		bundle_unref(e->directory);
		e->directory = bundle_ref(next->files);
	}
	e->epoch++;
	filter_set_destroy(e->filters);
	e->filters = filter_set_create(next);
}

/* ---- retiring -------------------------------------------------------------------- */

struct retirement {
	uv_work_t work;
	struct engine *engine;
	struct generation *generation;
};

static void finish_closing(struct engine *e);

static void retire(uv_work_t *work)
{
	struct retirement *r = work->data;
	generation_destroy(r->generation);
}

static void on_retired(uv_work_t *work, int status)
{
	struct retirement *r = work->data;
	struct engine *e = r->engine;
	mem_free(r);
	e->retiring--;
	finish_closing(e);
}

void engine_retire(struct engine *e, struct generation *g)
{
	struct retirement *r;
	if (!g)
		return;
	/* Others of this thread may have a reference. */
	bundle_unref(g->files);
	g->files = NULL;
	r = mem_zalloc(sizeof(*r));
	r->work.data = r;
	r->engine = e;
	r->generation = g;
	e->retiring++;
	if (uv_queue_work(e->loop, &r->work, retire, on_retired) == 0)
		return;
	e->retiring--;
	generation_destroy(g);
	mem_free(r);
}

/* ---- reloading --------------------------------------------------------------------- */

static void answer(struct engine *e, const struct error *result)
{
	struct reload_waiters waiters = STAILQ_HEAD_INITIALIZER(waiters);
	struct reload_waiter *w;
	STAILQ_CONCAT(&waiters, &e->waiters);
	if (e->hooks.on_reload)
		e->hooks.on_reload(e->hooks.ctx, result);
	while ((w = STAILQ_FIRST(&waiters))) {
		STAILQ_REMOVE_HEAD(&waiters, link);
		if (w->on_done && !e->is_closing)
			w->on_done(w->ctx, result);
		mem_free(w);
	}
}

static void refuse(struct engine *e, enum engine_origin origin, struct error *result)
{
	result->code = TIDE_ERULE;
	e->attempt = origin;
	e->refusal = *result;
	e->refused_count++;
	e->refused_unix_ms = api_tide_now_ms(&e->tide);
}

/* The old generation, which the caller frees; NULL when it is still needed. */
static struct generation *conclude(struct engine *e, int status, struct error *result)
{
	struct generation *old = NULL;
	if (status == TIDE_OK) {
		old = e->current;
		put_in_force(e, build_take(e), e->build.origin);
		old = carry_begin(e, old);
		e->refusal.code = result->code = TIDE_OK;
	} else {
		build_abort(e);
		refuse(e, e->build.origin, result);
	}
	answer(e, result);
	return old;
}

static void start_turns(struct engine *e, enum engine_origin origin);
static void on_change(void *ctx);

static void on_turn(uv_idle_t *idle)
{
	struct engine *e = idle->data;
	struct error result = { .code = TIDE_OK };
	int status;
	/* What the last one has replaced comes before the next one. */
	if (e->former) {
		carry_turn(e, BUILD_TURN_NS);
		return;
	}
	if (!e->build.is_under_way) {
		uv_idle_stop(idle);
		return;
	}
	/* Its memory is not free yet; on_retired comes before long. */
	if (e->retiring > 1 || !build_turn(e, BUILD_TURN_NS, &status, &result))
		return;
	uv_idle_stop(idle);
	engine_retire(e, conclude(e, status, &result));
	if (e->former && !e->is_closing)
		uv_idle_start(idle, on_turn);
	if (e->is_closing || e->build.is_under_way)
		return;
	bool must_follow = e->must_follow;
	e->must_follow = false;
	STAILQ_CONCAT(&e->waiters, &e->followers);
	if (!STAILQ_EMPTY(&e->waiters))
		start_turns(e, ENGINE_RELOAD);
	else if (must_follow)
		on_change(e);
}

static void start_turns(struct engine *e, enum engine_origin origin)
{
	build_start(e, NULL, origin);
	uv_idle_start(&e->turn, on_turn);
}

void engine_reload_start(struct engine *e, engine_on_reloaded *on_done, void *ctx)
{
	struct reload_waiter *w = mem_zalloc(sizeof(*w));
	w->on_done = on_done;
	w->ctx = ctx;
	if (e->build.is_under_way) {
		STAILQ_INSERT_TAIL(&e->followers, w, link);
		return;
	}
	STAILQ_INSERT_TAIL(&e->waiters, w, link);
	start_turns(e, ENGINE_RELOAD);
}

void engine_follow(struct engine *e)
{
	if (e->build.is_under_way)
		e->must_follow = true;
	else
		start_turns(e, ENGINE_FILES);
}

void engine_refuse(struct engine *e, enum engine_origin origin, const struct error *why)
{
	struct error result = *why;
	refuse(e, origin, &result);
	if (e->hooks.on_reload)
		e->hooks.on_reload(e->hooks.ctx, &result);
}

/* Stand still until it is done. */
static int load_now(struct engine *e, const struct bundle *from,
		    enum engine_origin origin, struct error *err)
{
	struct error result = { .code = TIDE_OK };
	int status;
	carry_finish(e);
	build_start(e, from, origin);
	while (!build_turn(e, INT64_MAX, &status, &result))
		;
	generation_destroy(conclude(e, status, &result));
	carry_finish(e);
	if (status != TIDE_OK && err)
		*err = result;
	return status != TIDE_OK ? TIDE_ERULE : TIDE_OK;
}

int engine_load(struct engine *e, struct bundle *files, enum engine_origin origin,
		struct error *err)
{
	if (e->build.is_under_way)
		return error_set(err, TIDE_EBUSY, "a reload is under way");
	bundle_ref(files);
	int status = load_now(e, files, origin, err);
	bundle_unref(files);
	return status;
}

int engine_reload(struct engine *e, struct error *err)
{
	build_abort(e);
	uv_idle_stop(&e->turn);
	STAILQ_CONCAT(&e->waiters, &e->followers);
	return load_now(e, NULL, ENGINE_RELOAD, err);
}

/* What is in force is not from the directory: is that as it was loaded last? */
static bool is_directory_same(const struct engine *e)
{
	if (!e->directory)
		return false;
	struct bundle *found = bundle_scan(e->config.rules_dir, e->directory);
	bool is_same = bundle_hash(found) == bundle_hash(e->directory);
	bundle_unref(found);
	return is_same;
}

/* A file that was touched, or changed and changed back, is no change. */
static void on_change(void *ctx)
{
	struct engine *e = ctx;
	if (e->build.is_under_way) {
		e->must_follow = true;
		return;
	}
	bool is_rolled_back = !is_of_directory(e->origin);
	bool must_build = e->must_build;
	e->must_build = false;
	/* What was rolled back stays so when it has used up its memory, and is
	 * superseded by a change alone: not by the event of the one that it takes
	 * back. */
	if (must_build && is_rolled_back) {
		if (engine_load(e, e->current->files, e->origin, NULL) != TIDE_OK)
			log_debug("rules: what was in force was refused");
		return;
	}
	bool is_same = is_rolled_back ? is_directory_same(e)
				      : !must_build && generation_is_current(e->current);
	if (!is_same && e->hooks.on_change) {
		e->hooks.on_change(e->hooks.ctx);
	} else if (!is_same) {
		engine_follow(e);
	} else if (!is_rolled_back && e->refusal.code != TIDE_OK) {
		e->refusal.code = TIDE_OK;
		log_info("rules: the files are again those in force");
	}
}

/* ---- life -------------------------------------------------------------------------- */

static void drop_waiters(struct reload_waiters *list)
{
	struct reload_waiter *w;
	while ((w = STAILQ_FIRST(list))) {
		STAILQ_REMOVE_HEAD(list, link);
		mem_free(w);
	}
}

static void free_engine(struct engine *e)
{
	void (*on_closed)(void *ctx) = e->on_closed;
	void *closed_ctx = e->closed_ctx;
	drop_waiters(&e->waiters);
	drop_waiters(&e->followers);
	build_abort(e);
	filter_set_destroy(e->filters);
	generation_destroy(e->former);
	generation_destroy(e->current);
	shared_destroy(e->shared);
	bundle_unref(e->directory);
	watchdog_destroy(e->watchdog);
	mem_free(e->free_numbers);
	mem_free(e->sink.dests);
	mem_free((char *)e->config.rules_dir);
	mem_free((char *)e->config.lua_dir);
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
		.on_change = on_change,
		.ctx = e,
	};
	int status = watch_open(&e->watch, e->loop, &config);
	if (status != 0)
		log_warn("rules: %s is not watched: %s; use RULES reload",
			 e->config.rules_dir, uv_strerror(status));
}

int engine_create(struct engine **out, uv_loop_t *loop,
		  const struct engine_config *config, const struct engine_hooks *hooks,
		  struct error *err)
{
	struct engine *e = mem_zalloc(sizeof(*e));
	e->loop = loop;
	e->config = *config;
	e->config.rules_dir = mem_strdup(config->rules_dir);
	e->config.lua_dir = mem_strdup(config->lua_dir);
	if (hooks)
		e->hooks = *hooks;
	if (e->config.breaker_rest_ms <= 0)
		e->config.breaker_rest_ms = BREAKER_REST_MS;
	TAILQ_INIT(&e->handles);
	STAILQ_INIT(&e->waiters);
	STAILQ_INIT(&e->followers);
	api_tide_init(&e->tide);
	e->shared = shared_create(config->shared_entries_max, config->shared_bytes_max);
	int status = watchdog_create(&e->watchdog, config->call_budget_ms);
	if (status != 0) {
		error_set(err, status, "no watchdog for the rules: %s",
			  uv_strerror(status));
		goto fail;
	}
	build_start(e, config->last_good,
		    config->last_good ? ENGINE_LAST_GOOD : ENGINE_START);
	while (!build_turn(e, INT64_MAX, &status, err))
		;
	if (status != TIDE_OK)
		goto fail;
	put_in_force(e, build_take(e), e->build.origin);
	if (config->last_good) {
		struct error why = *config->refusal;
		refuse(e, ENGINE_LAST_GOOD, &why);
	}
	e->config.last_good = NULL;
	e->config.refusal = NULL;
	uv_idle_init(loop, &e->turn);
	e->turn.data = e;
	start_watch(e);
	*out = e;
	return TIDE_OK;

fail:
	free_engine(e);
	return status;
}

/* The last of them ends the engine: the watch, the idle handle, the threads. */
static void finish_closing(struct engine *e)
{
	if (e->is_closing && --e->open_parts == 0)
		free_engine(e);
}

static void on_watch_closed(void *ctx)
{
	finish_closing(ctx);
}

static void on_turn_closed(uv_handle_t *handle)
{
	finish_closing(handle->data);
}

void engine_close(struct engine *e, void (*on_closed)(void *ctx), void *ctx)
{
	e->on_closed = on_closed;
	e->closed_ctx = ctx;
	e->is_closing = true;
	e->open_parts = 2 + e->retiring;
	watch_close(e->watch, on_watch_closed, e);
	uv_close((uv_handle_t *)&e->turn, on_turn_closed);
}

struct bundle *engine_files(const struct engine *e)
{
	return e->current->files;
}

uint64_t engine_hash(const struct engine *e)
{
	return e->current->hash;
}

enum engine_origin engine_origin(const struct engine *e)
{
	return e->origin;
}

enum engine_origin engine_attempt(const struct engine *e)
{
	return e->attempt;
}

uint64_t engine_epoch(const struct engine *e)
{
	return e->epoch;
}

bool engine_has(const struct engine *e, enum script_kind kind, struct slice name)
{
	return generation_find(e->current, kind, name) != NULL;
}
