#include "engine.h"

#include "base/mem.h"
#include "host/log.h"
#include "rules/api/api_shared.h"
#include "engine_private.h"
#include "rules/api/shared.h"
#include "unread.h"

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

static int use_now(struct engine *e, size_t number, enum script_kind kind,
		   struct slice name, const struct args *options, struct error *err)
{
	struct rule *rule;
	int status = generation_get(e->current, kind, name, &rule, err);
	if (status == TIDE_OK)
		status = room_check(e, err);
	if (status != TIDE_OK)
		return status;
	status = use_open(e->current, number, rule, options, err);
	return room_after_new(e, status, err);
}

int handle_open(struct handle *h, struct engine *e, enum script_kind kind,
		struct slice name, const struct args *options, const char *user,
		struct error *err)
{
	size_t number = take_number(e);
	int status = e->current ? use_now(e, number, kind, name, options, err) : TIDE_OK;
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
	build_forget(e, h);
	carry_forget(h);
	TAILQ_REMOVE(&e->handles, h, link);
	if (e->current) {
		struct rule *rule = (struct rule *)handle_use(h)->rule;
		rule->stats.cache_hits += h->cache_hits;
		use_release(e->current, h->number);
	}
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
	int status = use_open(g, h->number, rule, &h->options, &cause);
	if (status != TIDE_OK)
		return error_set(err, TIDE_ERULE, "%s (for %s)", cause.text, h->user);
	carry_note(h, g);
	return TIDE_OK;
}

/* ---- calls ---------------------------------------------------------------------- */

static int64_t monotonic_ms(void)
{
	return (int64_t)(uv_hrtime() / 1000000);
}

#define NOT_CALLED "not called again: it fails too often"

bool engine_is_not_called(const char *error_text)
{
	return strstr(error_text, "(" NOT_CALLED);
}

static int refuse_call(struct engine *e, struct rule *rule, bool is_counted,
		       struct error *err)
{
	rule->stats.skipped += is_counted;
	return error_set(err, TIDE_ERULE, "%s (" NOT_CALLED "; tried every %d s)",
			 rule->stats.last_error,
			 (int)((e->config.breaker_rest_ms + 999) / 1000));
}

static void tell_of_breaker(const struct engine *e, const struct rule *rule)
{
	if (rule->stats.breaker.is_open)
		log_error("%s: %s fails too often and is not called for %d ms at a "
			  "time; the last error: %s",
			  e->tide.about, rule->file, (int)e->config.breaker_rest_ms,
			  rule->stats.last_error);
	else
		log_info("%s: %s works again", e->tide.about, rule->file);
}

int use_decide(struct engine *e, const struct use_call *c, struct error *err)
{
	struct rule *rule = (struct rule *)c->use->rule;
	struct dry_run *costs = c->context ? c->context->costs : NULL;
	bool is_counted =
		!c->context || !(c->context->is_dry || c->context->is_uncounted);
	struct script_call call = { .file = rule->file,
				    .stats = is_counted ? &rule->stats : NULL,
				    .is_decision = true,
				    .context = c->context,
				    .body = c->body,
				    .ctx = c->ctx };
	bool was_open = rule->stats.breaker.is_open && !e->config.has_no_breaker;
	if (e->current->script.is_exhausted && !room_allows_call(e, rule, err))
		return TIDE_ERULE;
	if (was_open && !breaker_allows(&rule->stats.breaker, monotonic_ms(),
					e->config.breaker_rest_ms))
		return refuse_call(e, rule, is_counted, err);
	e->call_count++;
	uint64_t started_ns = costs ? uv_hrtime() : 0;
	int status = script_enter(&e->current->script, &call, err);
	if (costs)
		dry_run_count(costs, rule->file, uv_hrtime() - started_ns);
	if (was_open != rule->stats.breaker.is_open && !e->config.has_no_breaker)
		tell_of_breaker(e, rule);
	const struct script_state *s = &e->current->script;
	if (s->was_refused || s->is_exhausted)
		room_after_call(e, status);
	return status;
}

const uint64_t *engine_call_count(const struct engine *e)
{
	return &e->call_count;
}

/* ---- generations ---------------------------------------------------------------- */

void build_open_api(lua_State *L, void *engine)
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
	e->fresh_bytes = next->script.memory_bytes;
	e->origin = origin;
	if (is_of_directory(origin)) {
		bundle_unref(e->directory);
		e->directory = bundle_ref(next->files);
	}
	e->epoch++;
	filter_set_destroy(e->filters);
	e->filters = filter_set_create(next);
	if (is_of_directory(origin))
		unread_warn(e->tide.about, e->config.rules_dir, next, &e->unread);
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
	if (uv_queue_work(e->loop, &r->work, retire, on_retired) == 0) {
		e->retiring++;
		e->open_parts += e->is_closing;
		return;
	}
	generation_destroy(g);
	mem_free(r);
}

/* ---- reloading --------------------------------------------------------------------- */

void reload_set_asker(struct engine *e, const char *who)
{
	snprintf(e->asker, sizeof(e->asker), "%s", who);
}

const char *reload_asked_by(const struct engine *e)
{
	return e->attempt_by;
}

static void take_asker(struct engine *e, char out[ENGINE_ASKER_MAX])
{
	memcpy(out, e->asker, ENGINE_ASKER_MAX);
	e->asker[0] = '\0';
}

static void add_attempt_by(struct engine *e, const char *who)
{
	size_t len = strlen(e->attempt_by);
	if (who[0])
		snprintf(e->attempt_by + len, sizeof(e->attempt_by) - len, "%s%s",
			 len ? ", " : "", who);
}

static void answer(struct engine *e, const struct error *result)
{
	struct reload_waiters waiters = STAILQ_HEAD_INITIALIZER(waiters);
	struct reload_waiter *w;
	STAILQ_CONCAT(&waiters, &e->waiters);
	e->attempt_by[0] = '\0';
	STAILQ_FOREACH (w, &waiters, link)
		add_attempt_by(e, w->asker);
	if (e->hooks.on_reload && !e->is_closing)
		e->hooks.on_reload(e->hooks.ctx, result);
	while ((w = STAILQ_FIRST(&waiters))) {
		STAILQ_REMOVE_HEAD(&waiters, link);
		if (w->on_done)
			w->on_done(w->ctx, result);
		mem_free(w);
	}
}

static void set_attempt(struct engine *e, enum engine_origin origin,
			struct bundle *refused)
{
	if (refused)
		bundle_ref(refused);
	bundle_unref(e->refused);
	e->refused = refused;
	e->attempt = origin;
}

static void refuse(struct engine *e, enum engine_origin origin, struct bundle *files,
		   struct error *result)
{
	result->code = TIDE_ERULE;
	set_attempt(e, origin, files);
	e->refusal = *result;
	e->refused_count++;
	e->refused_unix_ms = api_tide_now_ms(&e->tide);
}

/* What the caller frees: the old generation, unless it is still needed, or that which
 * was refused; may be NULL. */
static struct generation *conclude(struct engine *e, int status, struct error *result)
{
	struct generation *rest;
	if (status == TIDE_OK) {
		rest = e->current;
		set_attempt(e, e->build.origin, NULL);
		put_in_force(e, build_take(e), e->build.origin);
		rest = carry_begin(e, rest);
		e->refusal.code = result->code = TIDE_OK;
	} else {
		refuse(e, e->build.origin, e->build.from, result);
		rest = build_take(e);
	}
	answer(e, result);
	return rest;
}

static void start_turns(struct engine *e, struct bundle *from, enum engine_origin origin);
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
		start_turns(e, NULL, ENGINE_RELOAD);
	else if (must_follow)
		on_change(e);
}

static void start_turns(struct engine *e, struct bundle *from, enum engine_origin origin)
{
	/* Files changed without a word where no event comes from. */
	if (origin == ENGINE_RELOAD)
		watch_renew(e->watch);
	build_start(e, from, origin);
	uv_idle_start(&e->turn, on_turn);
}

static void add_waiter(struct engine *e, struct reload_waiters *list,
		       reload_done_fn *on_done, void *ctx)
{
	struct reload_waiter *w = mem_zalloc(sizeof(*w));
	w->on_done = on_done;
	w->ctx = ctx;
	take_asker(e, w->asker);
	STAILQ_INSERT_TAIL(list, w, link);
}

void reload_start(struct engine *e, reload_done_fn *on_done, void *ctx)
{
	if (e->build.is_under_way) {
		add_waiter(e, &e->followers, on_done, ctx);
		return;
	}
	add_waiter(e, &e->waiters, on_done, ctx);
	start_turns(e, NULL, e->current ? ENGINE_RELOAD : ENGINE_START);
}

int reload_files(struct engine *e, struct bundle *files, enum engine_origin origin,
		 reload_done_fn *on_done, void *ctx, struct error *err)
{
	if (e->build.is_under_way) {
		e->asker[0] = '\0';
		return error_set(err, TIDE_EBUSY,
				 "other rules are being loaded; ask again");
	}
	add_waiter(e, &e->waiters, on_done, ctx);
	start_turns(e, files, origin);
	return TIDE_OK;
}

void reload_follow(struct engine *e)
{
	if (e->build.is_under_way)
		e->must_follow = true;
	else
		start_turns(e, NULL, ENGINE_FILES);
}

void reload_refuse(struct engine *e, enum engine_origin origin, struct bundle *files,
		   const struct error *why)
{
	struct error result = *why;
	refuse(e, origin, files, &result);
	take_asker(e, e->attempt_by);
	if (e->hooks.on_reload)
		e->hooks.on_reload(e->hooks.ctx, &result);
}

/* All turns in one. */
static int build_now(struct engine *e, struct bundle *from, enum engine_origin origin,
		     struct error *err)
{
	int status;
	carry_finish(e);
	build_start(e, from, origin);
	while (!build_turn(e, INT64_MAX, &status, err))
		;
	return status;
}

int reload_now(struct engine *e, struct error *err)
{
	struct error result = { .code = TIDE_OK };
	build_abort(e);
	uv_idle_stop(&e->turn);
	STAILQ_CONCAT(&e->waiters, &e->followers);
	int status = build_now(e, NULL, ENGINE_RELOAD, &result);
	generation_destroy(conclude(e, status, &result));
	carry_finish(e);
	if (status != TIDE_OK && err)
		*err = result;
	return status != TIDE_OK ? TIDE_ERULE : TIDE_OK;
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
		start_turns(e, e->current->files, e->origin);
		return;
	}
	bool is_same = is_rolled_back ? is_directory_same(e)
				      : !must_build && generation_is_current(e->current);
	if (!is_same && e->hooks.on_change) {
		e->hooks.on_change(e->hooks.ctx);
	} else if (!is_same) {
		reload_follow(e);
	} else if (!is_rolled_back && e->refusal.code != TIDE_OK) {
		e->refusal.code = TIDE_OK;
		log_info("rules: the files are again those in force");
	}
}

/* ---- life -------------------------------------------------------------------------- */

static void free_engine(struct engine *e)
{
	void (*on_closed)(void *ctx) = e->on_closed;
	void *closed_ctx = e->closed_ctx;
	build_abort(e);
	filter_set_destroy(e->filters);
	generation_destroy(e->former);
	generation_destroy(e->current);
	shared_destroy(e->shared);
	bundle_unref(e->directory);
	bundle_unref(e->refused);
	watchdog_destroy(e->watchdog);
	mem_free(e->free_numbers);
	mem_free(e->sink.dests);
	mem_free((char *)e->config.rules_dir);
	mem_free((char *)e->config.lua_dir);
	mem_free((char *)e->config.about);
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
	if (hooks)
		e->hooks = *hooks;
	if (e->config.breaker_rest_ms <= 0)
		e->config.breaker_rest_ms = BREAKER_REST_MS;
	TAILQ_INIT(&e->handles);
	STAILQ_INIT(&e->waiters);
	STAILQ_INIT(&e->followers);
	api_tide_init(&e->tide);
	if (config->about)
		e->tide.about = e->config.about = mem_strdup(config->about);
	e->shared = shared_create(config->shared_entries_max, config->shared_bytes_max);
	int status = watchdog_create(&e->watchdog, config->call_budget_ms);
	if (status != 0) {
		error_set(err, status, "no watchdog for the rules: %s",
			  uv_strerror(status));
		free_engine(e);
		return status;
	}
	e->config.last_good = NULL;
	e->config.refusal = NULL;
	*out = e;
	return TIDE_OK;
}

static void start_handles(struct engine *e)
{
	uv_idle_init(e->loop, &e->turn);
	e->turn.data = e;
	room_open(e);
	start_watch(e);
}

int engine_open(struct engine **out, uv_loop_t *loop, const struct engine_config *config,
		const struct engine_hooks *hooks, struct error *err)
{
	int status = prepare(out, loop, config, hooks, err);
	if (status == TIDE_OK)
		start_handles(*out);
	return status;
}

int engine_create(struct engine **out, uv_loop_t *loop,
		  const struct engine_config *config, const struct engine_hooks *hooks,
		  struct error *err)
{
	enum engine_origin origin = config->last_good ? ENGINE_LAST_GOOD : ENGINE_START;
	struct engine *e;
	int status = prepare(&e, loop, config, hooks, err);
	if (status != TIDE_OK)
		return status;
	status = build_now(e, config->last_good, origin, err);
	if (status != TIDE_OK) {
		free_engine(e);
		return status;
	}
	set_attempt(e, origin, NULL);
	put_in_force(e, build_take(e), origin);
	if (config->last_good) {
		struct error why = *config->refusal;
		refuse(e, ENGINE_LAST_GOOD, NULL, &why);
	}
	start_handles(e);
	*out = e;
	return TIDE_OK;
}

/* The last of them ends the engine: the watch, the idle handles, the threads. */
static void finish_closing(struct engine *e)
{
	if (e->is_closing && --e->open_parts == 0)
		free_engine(e);
}

static void on_watch_closed(void *ctx)
{
	finish_closing(ctx);
}

static void on_idle_closed(uv_handle_t *handle)
{
	finish_closing(handle->data);
}

void engine_close(struct engine *e, void (*on_closed)(void *ctx), void *ctx)
{
	const struct error stopping = { TIDE_ESHUTDOWN, "the broker is stopping" };
	e->on_closed = on_closed;
	e->closed_ctx = ctx;
	e->is_closing = true;
	e->open_parts = 3 + e->retiring;
	STAILQ_CONCAT(&e->waiters, &e->followers);
	answer(e, &stopping);
	/* Another engine's loop may go on. */
	engine_retire(e, build_take(e));
	filter_set_destroy(e->filters);
	e->filters = NULL;
	engine_retire(e, e->former);
	engine_retire(e, e->current);
	e->former = e->current = NULL;
	e->carry_at = NULL;
	watch_close(e->watch, on_watch_closed, e);
	uv_close((uv_handle_t *)&e->turn, on_idle_closed);
	uv_close((uv_handle_t *)&e->collector, on_idle_closed);
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

enum engine_origin reload_attempt(const struct engine *e)
{
	return e->attempt;
}

struct bundle *reload_refused_files(const struct engine *e)
{
	return e->refused;
}

uint64_t engine_epoch(const struct engine *e)
{
	return e->epoch;
}

bool engine_has(const struct engine *e, enum script_kind kind, struct slice name)
{
	return generation_find(e->current, kind, name) != NULL;
}
