/* room.c: the memory ceiling of scripts; see engine_private.h. */

#include "engine_private.h"
#include "host/log.h"
#include "host/machine.h"

/* The part of the ceiling for calls alone: nothing is bound or declared in it. */
#define RESERVE(max) ((max) / 16)
/* How long scripts are not called when their memory is used up: each call would collect
 * all of it. */
#define REST_MS 1000
#define TURN_NS 1000000

static struct script_state *state_of(struct engine *e)
{
	return &e->current->script;
}

/* Two ends of a cycle: the first may be of one that had marked already what has become
 * garbage since. */
static void on_collect(uv_idle_t *idle)
{
	struct engine *e = idle->data;
	struct script_state *s = state_of(e);
	uint64_t start_ns = uv_hrtime();

	if (e->room.collecting != e->epoch) {
		uv_idle_stop(idle);
		return;
	}
	do /* a step of the collector, below a millisecond */
		e->room.cycles_left -= lua_gc(s->L, LUA_GCSTEP, 0) != 0;
	while (e->room.cycles_left > 0 && uv_hrtime() - start_ns < TURN_NS);
	if (e->room.cycles_left > 0)
		return;
	s->collected_bytes = s->memory_bytes;
	uv_idle_stop(idle);
}

/* Unless little has been added since it was done last. */
static void collect(struct engine *e)
{
	const struct script_state *s = state_of(e);
	bool is_done = s->collected_bytes > 0 &&
		       s->memory_bytes <= s->collected_bytes + s->memory_max_bytes / 64;

	if (is_done || e->is_closing || uv_is_active((uv_handle_t *)&e->room.collector))
		return;
	e->room.collecting = e->epoch;
	e->room.cycles_left = 2;
	uv_idle_start(&e->room.collector, on_collect);
}

void room_open(struct engine *e)
{
	uv_idle_init(e->loop, &e->room.collector);
	e->room.collector.data = e;
}

int room_check(struct engine *e, const struct account *a, struct error *err)
{
	const struct script_state *s = state_of(e);
	size_t max = s->memory_max_bytes, used = s->memory_bytes;
	size_t share = account_share(a, used, max), limit = share;

	if (a->full_bytes > 0 && a->full_bytes < share)
		limit = a->full_bytes - RESERVE(a->full_bytes);
	if (a->bytes <= limit && used <= max - RESERVE(max))
		return TIDE_OK;
	collect(e);
	return error_set(err, TIDE_ELIMIT,
			 "the scripts' memory is nearly full: %s%s%" SLICE_FMT
			 "%s holds %zu KiB, its share is %zu of %zu KiB; raise "
			 "--rules-memory or remove bindings",
			 a->file, a->vhost.len ? " for vhost '" : "", SLICE_ARG(a->vhost),
			 a->vhost.len ? "'" : "", a->bytes / 1024, share / 1024,
			 max / 1024);
}

int room_after_new(struct engine *e, struct account *a, int rc, struct error *err)
{
	const struct script_state *s = state_of(e);

	if (rc == TIDE_OK || !s->was_refused) {
		if (rc == TIDE_OK)
			a->full_bytes = 0;
		return rc;
	}
	a->full_bytes = a->bytes;
	collect(e);
	err->code = TIDE_ELIMIT;
	return TIDE_ELIMIT;
}

/* Values that scripts have kept since they were loaded would fail them for ever: the
 * next generation begins without them. But to load the same amount anew would be in
 * vain. */
static void start_afresh(struct engine *e, const struct account *a)
{
	const struct script_state *s = state_of(e);
	bool is_kept = s->memory_bytes > e->room.fresh_bytes + s->memory_max_bytes / 8;

	if (!is_kept || e->room.ending_epoch == e->epoch)
		return;
	e->room.ending_epoch = e->epoch;
	log_warn("%s: scripts have filled their %zu KiB (--rules-memory), of which "
		 "%s%s%" SLICE_FMT "%s holds %zu KiB; reloading them",
		 e->tide.about, s->memory_max_bytes / 1024, a->file,
		 a->vhost.len ? " for vhost '" : "", SLICE_ARG(a->vhost),
		 a->vhost.len ? "'" : "", a->bytes / 1024);
	e->reload.must_build = true;
	watch_poke(e->watch);
}

bool room_allows_call(struct engine *e, const struct account *a, struct error *err)
{
	const struct script_state *s = state_of(e);

	if (machine_clock_ms(CLOCK_MONOTONIC) >= a->rests_until_ms)
		return true;
	error_set(err, TIDE_ERULE,
		  "%s: not called: the rules' memory ceiling of %zu KiB is reached "
		  "(--rules-memory): the script holds %zu KiB",
		  a->file, s->memory_max_bytes / 1024, a->bytes / 1024);
	return false;
}

void room_after_call(struct engine *e, struct account *a, int rc)
{
	struct script_state *s = state_of(e);

	if (rc == TIDE_OK && !s->was_refused) {
		a->is_exhausted = s->is_exhausted = false;
		return;
	}
	if (s->was_refused)
		collect(e);
	if (rc == TIDE_OK || !a->is_exhausted)
		return;
	a->rests_until_ms = machine_clock_ms(CLOCK_MONOTONIC) + REST_MS;
	start_afresh(e, a);
}
