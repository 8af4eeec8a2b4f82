#include "build.h"

#include "base/mem.h"
#include "host/machine.h"
#include "engine_private.h"
#include "rules/api/api_shared.h"
#include "rules/api/draft.h"

void build_start(struct engine *e, struct bundle *from, enum engine_origin origin)
{
	struct build *b = &e->build;
	uint64_t serial = b->serial;

	*b = (struct build){ .is_under_way = true,
			     .from = from ? bundle_ref(from) : NULL,
			     .origin = origin,
			     .serial = serial,
			     .started_ns = (int64_t)uv_hrtime() };
}

static void end(struct build *b)
{
	bundle_unref(b->from);
	b->from = NULL;
	b->next = NULL;
	b->is_under_way = false;
}

void build_abort(struct engine *e)
{
	generation_destroy(e->build.next);
	end(&e->build);
}

struct generation *build_take(struct engine *e)
{
	struct generation *next = e->build.next;

	end(&e->build);
	return next;
}

struct generation *build_take_dropped(struct engine *e)
{
	struct generation *dropped = e->build.dropped;

	e->build.dropped = NULL;
	return dropped;
}

void build_open_api(lua_State *L, void *engine)
{
	struct engine *e = engine;

	index_open(L, e);
	strategy_open(L);
	draft_open(L);
	schedule_open(L, e);
	sandbox_push_global(L, "tide");
	api_shared_add(L, &e->tide);
	lua_pop(L, 1);
}

static int begin(struct engine *e, struct error *err)
{
	struct build *b = &e->build;

	b->serial++;
	b->at = NULL;
	b->must_restart = false;
	return generation_begin(&b->next, &e->scripts, b->from, err);
}

static void restart(struct build *b)
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
	int rc = TIDE_OK;

	if (h->staged != b->serial) {
		rc = handle_install(h, b->next, err);
		if (rc != TIDE_OK)
			return rc;
		h->staged = b->serial;
	}
	if (h->kind == SCRIPT_ROUTING && !index_stage(h, b->next, b->serial, &rc, err))
		return rc;
	b->at = TAILQ_NEXT(h, link);
	return rc;
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

static int step(struct engine *e, bool *is_done, struct error *err)
{
	struct build *b = &e->build;

	if (b->failure.code != TIDE_OK) {
		*err = b->failure;
		return b->failure.code;
	}
	if (b->must_restart)
		restart(b);
	if (!b->next)
		return begin(e, err);
	if (b->next->loading)
		return generation_step(b->next, err);
	if (!b->at)
		b->at = first_missing(e);
	if (b->at)
		return step_handle(e, err);
	bool must_check = !b->from && b->restarts < BUILD_RESTARTS_MAX;
	if (must_check && !b->is_checking) {
		b->is_checking = true;
		return TIDE_OK;
	}
	if (must_check && !generation_is_current(b->next))
		restart(b);
	else
		*is_done = true;
	b->is_checking = false;
	return TIDE_OK;
}

bool build_turn(struct engine *e, int64_t max_ns, int *rc, struct error *err)
{
	struct build *b = &e->build;
	int64_t started_ns = (int64_t)uv_hrtime(), took_ns;
	int64_t started_cpu_ns = machine_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	bool is_done = false;

	*rc = TIDE_OK;
	do {
		*rc = step(e, &is_done, err);
		took_ns = (int64_t)uv_hrtime() - started_ns;
	} while (*rc == TIDE_OK && !is_done && !b->is_checking && !b->dropped &&
		 took_ns < max_ns);
	b->turns++;
	b->worked_ns += took_ns;
	b->took_ns = started_ns + took_ns - b->started_ns;
	if (took_ns > b->longest_ns)
		b->longest_ns = took_ns;
	int64_t cpu_ns = machine_clock_ns(CLOCK_THREAD_CPUTIME_ID) - started_cpu_ns;
	if (cpu_ns > b->longest_cpu_ns)
		b->longest_cpu_ns = cpu_ns;
	return is_done || *rc != TIDE_OK;
}

struct generation *build_generation_of(const struct handle *h)
{
	const struct build *b = &h->engine->build;
	bool is_in = b->is_under_way && b->next && h->staged == b->serial;

	return is_in && !b->must_restart ? b->next : NULL;
}

void build_forget(struct engine *e, struct handle *h)
{
	struct build *b = &e->build;

	if (!b->next)
		return;
	if (b->at == h)
		b->at = TAILQ_NEXT(h, link);
	if (h->staged == b->serial)
		use_release(b->next, h->number);
}
