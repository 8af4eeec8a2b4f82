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

int handle_open(struct handle *h, struct engine *e, enum script_kind kind,
		struct slice name, const struct args *options, const char *user,
		struct error *err)
{
	struct rule *rule;
	int status = generation_get(e->current, kind, name, &rule, err);
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
	if (status == TIDE_OK && h->kind == SCRIPT_ROUTING)
		status = index_rebuild((struct index *)h, g, &cause);
	if (status != TIDE_OK)
		return error_set(err, TIDE_ERULE, "%s (for %s)", cause.text, h->user);
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
	watch_poke(e->watch);
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
	if (e->dry_run)
		call.stats = NULL;
	uint64_t started_ns = e->dry_run ? uv_hrtime() : 0;
	int status = script_enter(&e->current->script, &call, err);
	if (e->dry_run)
		dry_run_count(e->dry_run, rule->file, uv_hrtime() - started_ns);
	if (status != TIDE_OK && e->current->script.is_exhausted)
		start_afresh(e);
	return status;
}

/* ---- generations ---------------------------------------------------------------- */

static void open_api(lua_State *L, void *ctx)
{
	index_open(L, ctx);
	strategy_open(L);
	draft_open(L);
	schedule_open(L, ctx);
	sandbox_push_global(L, "tide");
	api_shared_add(L, ctx);
	lua_pop(L, 1);
}

/* A generation with everything that is in use. */
static int build(struct engine *e, struct generation **out, struct error *err)
{
	const struct generation_config config = {
		.rules_dir = e->config.rules_dir,
		.lua_dir = e->config.lua_dir,
		.watchdog = e->watchdog,
		.memory_max_bytes = e->config.memory_max_bytes,
		.tide = &e->tide,
		.open = open_api,
		.open_ctx = e,
	};
	struct handle *h;
	int status = generation_create(out, &config, err);
	if (status != TIDE_OK)
		return status;
	TAILQ_FOREACH (h, &e->handles, link) {
		status = handle_install(h, *out, err);
		if (status != TIDE_OK) {
			generation_destroy(*out);
			return status;
		}
	}
	return TIDE_OK;
}

/* Counters go on; the last error stays only while the script is the same. */
static void inherit_stats(struct generation *to, const struct generation *from)
{
	for (size_t i = 0; i < to->rule_count; i++) {
		struct rule *rule = to->rules[i];
		const struct rule *old =
			generation_find(from, rule->kind, slice_from(rule->name));
		if (!old)
			continue;
		rule->stats = old->stats;
		if (old->hash != rule->hash) {
			rule->stats.last_error[0] = '\0';
			rule->stats.last_error_unix_ms = 0;
		}
	}
}

static void put_in_force(struct engine *e, struct generation *next)
{
	struct generation *old = e->current;
	if (old)
		inherit_stats(next, old);
	e->current = next;
	e->epoch++;
	filter_set_destroy(e->filters);
	e->filters = filter_set_create(next);
	generation_destroy(old);
}

static int reload(struct engine *e, struct error *err)
{
	struct generation *next;
	if (build(e, &next, err) != TIDE_OK) {
		err->code = TIDE_ERULE;
		e->refusal = *err;
		e->refused_count++;
		e->refused_unix_ms = api_tide_now_ms(&e->tide);
		return TIDE_ERULE;
	}
	put_in_force(e, next);
	e->refusal.code = TIDE_OK;
	return TIDE_OK;
}

int engine_reload(struct engine *e, struct error *err)
{
	struct error result = { .code = TIDE_OK };
	int status = reload(e, &result);
	if (status != TIDE_OK && err)
		*err = result;
	if (e->hooks.on_reload)
		e->hooks.on_reload(e->hooks.ctx, &result);
	return status;
}

static void on_change(void *ctx)
{
	/* The hook tells of it, and the status keeps it. */
	if (engine_reload(ctx, NULL) != TIDE_OK)
		log_debug("rules: a changed directory was refused");
}

/* ---- life -------------------------------------------------------------------------- */

static void free_engine(void *ctx)
{
	struct engine *e = ctx;
	void (*on_closed)(void *ctx) = e->on_closed;
	void *closed_ctx = e->closed_ctx;
	filter_set_destroy(e->filters);
	generation_destroy(e->current);
	shared_destroy(e->shared);
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
	TAILQ_INIT(&e->handles);
	api_tide_init(&e->tide);
	e->shared = shared_create(config->shared_entries_max, config->shared_bytes_max);
	int status = watchdog_create(&e->watchdog, config->call_budget_ms);
	if (status != 0) {
		error_set(err, status, "no watchdog for the rules: %s",
			  uv_strerror(status));
		goto fail;
	}
	struct generation *first;
	status = build(e, &first, err);
	if (status != TIDE_OK)
		goto fail;
	put_in_force(e, first);
	start_watch(e);
	*out = e;
	return TIDE_OK;

fail:
	free_engine(e);
	return status;
}

void engine_close(struct engine *e, void (*on_closed)(void *ctx), void *ctx)
{
	e->on_closed = on_closed;
	e->closed_ctx = ctx;
	watch_close(e->watch, free_engine, e);
}

uint64_t engine_epoch(const struct engine *e)
{
	return e->epoch;
}

bool engine_has(const struct engine *e, enum script_kind kind, struct slice name)
{
	return generation_find(e->current, kind, name) != NULL;
}
