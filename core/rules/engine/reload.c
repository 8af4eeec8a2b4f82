#include "reload.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine_private.h"
#include "host/log.h"
#include "host/machine.h"

#define RELOAD_TURN_NS 1500000
/* Then a directory that changes all the time is taken as it is. */
#define RESTARTS_MAX 5

struct reload_waiter {
	STAILQ_ENTRY(reload_waiter) link;
	struct reload_asker asker;
};

const struct error *reload_refusal(const struct engine *e)
{
	return &e->reload.refusal;
}

const struct reload_attempt *reload_last(const struct engine *e)
{
	return &e->reload.last;
}

static void add_waiter(struct reload_waiters *list, const struct reload_asker *asker)
{
	struct reload_waiter *w = mem_zalloc(sizeof(*w));

	w->asker = *asker;
	STAILQ_INSERT_TAIL(list, w, link);
}

/* Report the end of an attempt to the owner and to those who wait. */
static void answer_waiters(struct engine *e, const struct error *result)
{
	struct reload_waiters waiters = STAILQ_HEAD_INITIALIZER(waiters);
	struct reload_waiter *w;
	char *by = e->reload.last.asked_by;
	size_t len = 0;

	STAILQ_CONCAT(&waiters, &e->reload.waiters);
	by[0] = '\0';
	STAILQ_FOREACH (w, &waiters, link) {
		if (w->asker.name[0])
			snprintf(by + len, RELOAD_ASKER_MAX - len, "%s%s",
				 len ? ", " : "", w->asker.name);
		len = strlen(by);
	}
	if (e->hooks.on_reload && !e->is_closing)
		e->hooks.on_reload(e->hooks.ctx, result);
	while ((w = STAILQ_FIRST(&waiters))) {
		STAILQ_REMOVE_HEAD(&waiters, link);
		w->asker.on_done(w->asker.ctx, result);
		mem_free(w);
	}
}

static void build_start(struct engine *e, struct bundle *from, enum engine_origin origin)
{
	struct build *b = &e->build;
	uint64_t serial = b->serial;

	*b = (struct build){ .is_under_way = true,
			     .from = from ? bundle_ref(from) : NULL,
			     .origin = origin,
			     .serial = serial,
			     .started_ns = (int64_t)uv_hrtime() };
}

/* End the build, if one is under way, and take its generation; may be NULL. */
static struct generation *build_take(struct engine *e)
{
	struct build *b = &e->build;
	struct generation *next = b->next;

	bundle_unref(b->from);
	b->from = NULL;
	b->next = NULL;
	b->is_under_way = false;
	return next;
}

static int begin_build(struct engine *e, struct error *err)
{
	struct build *b = &e->build;

	b->serial++;
	b->at = NULL;
	b->must_restart = false;
	return generation_begin(&b->next, &e->scripts, b->from, err);
}

static void restart_build(struct build *b)
{
	b->restarts++;
	b->at = NULL;
	b->dropped = b->next;
	b->next = NULL;
}

static int step_handle(struct engine *e, struct error *err)
{
	struct build *b = &e->build;
	struct handle *h = b->at;

	if (h->staged != b->serial) {
		int rc = handle_install(h, b->next, err);
		if (rc != TIDE_OK)
			return rc;
		h->staged = b->serial;
		h->staged_end = 0;
	}
	if (h->kind == SCRIPT_ROUTING) {
		int rc = index_stage(h, b->next, err);
		if (rc != TIDE_EMPTY)
			return rc;
	}
	b->at = TAILQ_NEXT(h, link);
	return TIDE_OK;
}

/* Handles that have come since the last was put in are at the end. */
static struct handle *first_missing(const struct engine *e)
{
	struct handle *first = NULL, *h;

	TAILQ_FOREACH_REVERSE(h, &e->handles, handle_list, link)
	{
		if (h->staged == e->build.serial)
			break;
		first = h;
	}
	return first;
}

static int step_build(struct engine *e, bool *is_done, struct error *err)
{
	struct build *b = &e->build;

	if (b->failure.code != TIDE_OK) {
		*err = b->failure;
		return b->failure.code;
	}
	if (b->must_restart)
		restart_build(b);
	if (!b->next)
		return begin_build(e, err);
	if (b->next->is_loading)
		return generation_step(b->next, err);
	if (!b->at)
		b->at = first_missing(e);
	if (b->at)
		return step_handle(e, err);
	bool must_check = !b->from && b->restarts < RESTARTS_MAX;
	if (must_check && !b->is_checking) {
		b->is_checking = true;
		return TIDE_OK;
	}
	if (must_check && !generation_is_current(b->next))
		restart_build(b);
	else
		*is_done = true;
	b->is_checking = false;
	return TIDE_OK;
}

/* When a piece of work in one turn of the loop began. */
struct moment {
	int64_t ns, cpu_ns;
};

static struct moment moment_now(void)
{
	struct moment m = { .ns = (int64_t)uv_hrtime() };

	m.cpu_ns = machine_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return m;
}

static void note_turn(struct build *b, struct moment since)
{
	/* Read first, as it was read last: it is never more than the time. */
	int64_t cpu_ns = machine_clock_ns(CLOCK_THREAD_CPUTIME_ID) - since.cpu_ns;
	int64_t ns = (int64_t)uv_hrtime() - since.ns;

	if (ns > b->longest_ns)
		b->longest_ns = ns;
	if (cpu_ns > b->longest_cpu_ns)
		b->longest_cpu_ns = cpu_ns;
}

/* Work for about `max_ns`. True at the end of the build: `*rc` is TIDE_OK, or `err`
 * has the reason of its failure. The caller frees `dropped`. */
static bool build_turn(struct engine *e, int64_t max_ns, int *rc, struct error *err)
{
	struct build *b = &e->build;
	struct moment started = moment_now();
	int64_t took_ns;
	bool is_done = false;

	*rc = TIDE_OK;
	do {
		*rc = step_build(e, &is_done, err);
		took_ns = (int64_t)uv_hrtime() - started.ns;
	} while (*rc == TIDE_OK && !is_done && !b->is_checking && !b->dropped &&
		 took_ns < max_ns);
	b->turns++;
	b->worked_ns += took_ns;
	b->took_ns = started.ns + took_ns - b->started_ns;
	note_turn(b, started);
	return is_done || *rc != TIDE_OK;
}

static bool is_of_directory(enum engine_origin origin)
{
	return origin == ENGINE_START || origin == ENGINE_FILES ||
	       origin == ENGINE_RELOAD;
}

/* Takes over the reference. */
static void set_attempt(struct reload *r, enum engine_origin origin,
			struct bundle *refused)
{
	bundle_unref(r->last.refused);
	r->last.refused = refused;
	r->last.origin = origin;
}

/* The generation of the build becomes the active one. */
static void activate(struct engine *e)
{
	enum engine_origin origin = e->build.origin;
	struct generation *next = build_take(e), *former = e->current;

	set_attempt(&e->reload, origin, NULL);
	circuit_forget_all(e);
	e->current = next;
	figures_begin(e, former);
	e->room.fresh_bytes = next->script.memory_bytes;
	e->origin = origin;
	e->epoch++;
	hook_renew(e, next);
	if (!is_of_directory(origin))
		return;
	bundle_unref(e->reload.directory);
	e->reload.directory = bundle_ref(next->files);
}

static void refuse_build(struct engine *e, enum engine_origin origin,
			 struct bundle *files, struct error *result)
{
	struct reload *r = &e->reload;

	result->code = TIDE_ERULE;
	set_attempt(r, origin, files ? bundle_ref(files) : NULL);
	r->refusal = *result;
	r->refused_count++;
	r->refused_unix_ms = api_tide_now_ms(&e->tide);
}

/* The generation that the caller frees, perhaps NULL: the former one, unless its
 * states are still needed, or the refused one. */
static struct generation *conclude_build(struct engine *e, int rc, struct error *result)
{
	struct generation *rest = e->current;

	if (rc == TIDE_OK) {
		activate(e);
		rest = carry_begin(e, rest);
		e->reload.refusal.code = result->code = TIDE_OK;
	} else {
		refuse_build(e, e->build.origin, e->build.from, result);
		rest = build_take(e);
	}
	answer_waiters(e, result);
	return rest;
}

static void on_turn(uv_idle_t *idle);

static void start_turns(struct engine *e, struct bundle *from, enum engine_origin origin)
{
	build_start(e, from, origin);
	/* File systems without events report no change: look at the places anew. */
	if (origin == ENGINE_RELOAD)
		watch_renew(e->watch);
	uv_idle_start(&e->reload.turn, on_turn);
}

/* The build has ended: the next one, if somebody waits or the directory changed. */
static void start_next(struct engine *e)
{
	struct reload *r = &e->reload;
	struct bundle *files = r->following;
	bool must_follow = r->must_follow;

	r->must_follow = false;
	r->following = NULL;
	STAILQ_CONCAT(&r->waiters, &r->followers);
	if (!STAILQ_EMPTY(&r->waiters))
		start_turns(e, files, ENGINE_RELOAD);
	else if (must_follow)
		reload_on_change(e);
	bundle_unref(files);
}

static void on_turn(uv_idle_t *idle)
{
	struct engine *e = idle->data;
	struct error result = { .code = TIDE_OK };
	struct moment started = moment_now();
	int rc;

	/* The former generation goes before the next one comes. */
	if (e->former) {
		engine_retire(e, carry_turn(e, RELOAD_TURN_NS));
		return;
	}
	if (!e->build.is_under_way) {
		uv_idle_stop(idle);
		return;
	}
	/* The memory of retired generations is not free yet. */
	if (e->retiring > 1)
		return;
	bool has_ended = build_turn(e, RELOAD_TURN_NS, &rc, &result);
	engine_retire(e, e->build.dropped);
	e->build.dropped = NULL;
	if (!has_ended)
		return;
	uv_idle_stop(idle);
	engine_retire(e, conclude_build(e, rc, &result));
	/* The time includes the callbacks that tell the result. */
	note_turn(&e->build, started);
	if (e->former && !e->is_closing)
		uv_idle_start(idle, on_turn);
	if (!e->is_closing && !e->build.is_under_way)
		start_next(e);
}

void reload_start(struct engine *e, struct bundle *files,
		  const struct reload_asker *asker)
{
	struct reload *r = &e->reload;

	if (!e->build.is_under_way) {
		add_waiter(&r->waiters, asker);
		start_turns(e, files, e->current ? ENGINE_RELOAD : ENGINE_START);
		return;
	}
	add_waiter(&r->followers, asker);
	bundle_unref(r->following);
	r->following = files ? bundle_ref(files) : NULL;
}

int reload_files(struct engine *e, struct bundle *files, enum engine_origin origin,
		 const struct reload_asker *asker, struct error *err)
{
	if (e->build.is_under_way)
		return error_set(err, TIDE_EBUSY,
				 "other rules are being loaded; try again");
	add_waiter(&e->reload.waiters, asker);
	start_turns(e, files, origin);
	return TIDE_OK;
}

void reload_follow(struct engine *e, struct bundle *files)
{
	if (e->build.is_under_way)
		e->reload.must_follow = true;
	else
		start_turns(e, files, ENGINE_FILES);
}

void reload_unchanged(struct engine *e)
{
	struct reload *r = &e->reload;

	if (!is_of_directory(e->origin) || r->refusal.code == TIDE_OK)
		return;
	r->refusal.code = TIDE_OK;
	log_info("rules: the files match the active rules again");
}

void reload_installed(struct engine *e)
{
	bundle_unref(e->reload.directory);
	e->reload.directory = bundle_ref(e->current->files);
}

struct bundle *reload_known_files(const struct engine *e)
{
	return is_of_directory(e->origin) ? e->current->files : e->reload.directory;
}

struct bundle *reload_framework(const struct engine *e)
{
	return is_of_directory(e->origin) ? e->current->sandbox.framework : NULL;
}

void reload_refuse(struct engine *e, enum engine_origin origin, struct bundle *files,
		   const char *asker, const struct error *why)
{
	struct error result = *why;

	refuse_build(e, origin, files, &result);
	snprintf(e->reload.last.asked_by, RELOAD_ASKER_MAX, "%s", asker);
	if (e->hooks.on_reload)
		e->hooks.on_reload(e->hooks.ctx, &result);
}

/* All turns in one. */
static int build_now(struct engine *e, struct bundle *from, enum engine_origin origin,
		     struct error *err)
{
	bool has_ended;
	int rc;

	carry_finish(e);
	build_start(e, from, origin);
	do {
		has_ended = build_turn(e, INT64_MAX, &rc, err);
		generation_destroy(e->build.dropped);
		e->build.dropped = NULL;
	} while (!has_ended);
	return rc;
}

int reload_first(struct engine *e, struct bundle *files, const struct error *refusal,
		 struct error *err)
{
	enum engine_origin origin = refusal ? ENGINE_LAST_GOOD : ENGINE_START;
	int rc = build_now(e, files, origin, err);

	if (rc != TIDE_OK) {
		generation_destroy(build_take(e));
		return rc;
	}
	activate(e);
	if (refusal) {
		struct error why = *refusal;

		refuse_build(e, origin, NULL, &why);
	}
	return TIDE_OK;
}

int reload_now(struct engine *e, struct error *err)
{
	struct error result = { .code = TIDE_OK };
	struct reload *r = &e->reload;

	generation_destroy(build_take(e));
	uv_idle_stop(&r->turn);
	STAILQ_CONCAT(&r->waiters, &r->followers);
	int rc = build_now(e, NULL, ENGINE_RELOAD, &result);
	generation_destroy(conclude_build(e, rc, &result));
	carry_finish(e);
	if (rc != TIDE_OK && err)
		*err = result;
	return rc != TIDE_OK ? TIDE_ERULE : TIDE_OK;
}

/* A file that was touched, or changed and changed back, is no change: the owner, or what
 * is done here without one, finds out. */
void reload_on_change(void *engine)
{
	struct engine *e = engine;
	struct reload *r = &e->reload;

	if (e->build.is_under_way) {
		r->must_follow = true;
		return;
	}
	/* The memory of these is used up. Whether the directory has changed is asked
	 * after that. */
	if (r->must_build) {
		r->must_build = false;
		r->must_follow = true;
		start_turns(e, e->current->files, e->origin);
	} else if (e->hooks.on_change) {
		e->hooks.on_change(e->hooks.ctx);
	} else if (!generation_is_current(e->current)) {
		reload_follow(e, NULL);
	} else {
		reload_unchanged(e);
	}
}

void reload_close(struct engine *e)
{
	const struct error stopping = { TIDE_ESHUTDOWN, "the broker is stopping" };

	STAILQ_CONCAT(&e->reload.waiters, &e->reload.followers);
	answer_waiters(e, &stopping);
	engine_retire(e, build_take(e));
	bundle_unref(e->reload.following);
	e->reload.following = NULL;
}

struct generation *reload_generation_of(const struct handle *h)
{
	const struct build *b = &h->engine->build;
	bool is_in = b->is_under_way && b->next && h->staged == b->serial;

	return is_in && !b->must_restart ? b->next : NULL;
}

void reload_forget(struct handle *h)
{
	struct build *b = &h->engine->build;

	if (!b->next)
		return;
	if (b->at == h)
		b->at = TAILQ_NEXT(h, link);
	if (h->staged == b->serial)
		use_release(b->next, h->number);
}
