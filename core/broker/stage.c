#include "stage.h"

#include <float.h>
#include <stdlib.h>

#include "../base/log.h"
#include "shard.h"

#define REFILL_MAX 2048 /* rows of one read: some 2 ms of Redis's time */

/* Over the broker's soft limit every window makes do with a fraction. */
#define SHRINK 16

void stage_init(struct stage *st, struct shard *sh, enum store_set set,
		struct pool *lanes)
{
	*st = (struct stage){ .shard = sh, .set = set };
	window_init(&st->window, lanes);
	TAILQ_INIT(&st->outside);
}

static size_t limit_messages(const struct stage *st)
{
	const struct shard_env *env = st->shard->env;
	size_t limit = env->window_messages;

	if (env->memory_bytes > env->memory_soft_bytes)
		limit /= SHRINK;
	return limit > 2 ? limit : 2;
}

static size_t limit_bytes(const struct stage *st)
{
	const struct shard_env *env = st->shard->env;

	return env->memory_bytes > env->memory_soft_bytes ? env->window_bytes / SHRINK
							  : env->window_bytes;
}

static bool is_over(const struct stage *st)
{
	return st->window.count > limit_messages(st) ||
	       (st->window.bytes > limit_bytes(st) && st->window.count > 1);
}

static bool has_edge(const struct stage *st)
{
	return st->beyond > 0 || st->is_refilling;
}

static void raise_shadow(const struct stage *st, const struct entry *e, struct place *max)
{
	struct place place = { e->rank, e->id };

	if (e->home == st->set && !(e->flags & ENTRY_OUTSIDE) &&
	    place_is_before(*max, place))
		*max = place;
}

/* The last place of a message that is in somebody's hands while Redis's set
 * still names it. Were the edge put before it, a refill would bring the
 * message again. */
static struct place last_shadow(const struct stage *st)
{
	const struct shard *sh = st->shard;
	struct place max = { -DBL_MAX, 0 };
	const struct entry *e;

	TAILQ_FOREACH (e, &sh->young, link)
		raise_shadow(st, e, &max);
	TAILQ_FOREACH (e, &sh->moving, link)
		raise_shadow(st, e, &max);
	TAILQ_FOREACH (e, &sh->dirty, dirty_link)
		if (e->state != ENTRY_READY)
			raise_shadow(st, e, &max);
	return max;
}

void stage_put_outside(struct stage *st, struct entry *e)
{
	bool is_written = e->home == st->set && !(e->flags & ENTRY_DIRTY);

	shard_account(e, -1);
	e->flags |= ENTRY_OUTSIDE;
	st->beyond++;
	if (is_written && !st->is_refilling) {
		if (!(e->flags & ENTRY_IN_FLIGHT))
			shard_entry_free(e);
		return;
	}
	e->flags |= ENTRY_LISTED;
	TAILQ_INSERT_TAIL(&st->outside, e, link);
	if (!is_written)
		st->outside_unwritten++;
}

#define EVICT_REST_MS 10

/* Give the last entries back to Redis, some more than are over the limits, so
 * that the search for shadows is not made for each of them. */
static void evict(struct stage *st)
{
	size_t few = st->window.count - st->window.count / SHRINK;
	size_t most = limit_messages(st) - limit_messages(st) / SHRINK;
	size_t keep = few < most ? few : most;
	struct place shadow = { -DBL_MAX, 0 };

	if (st->shard->env->now_ms < st->evict_unix_ms)
		return;
	if (st->set == STORE_READY)
		shadow = last_shadow(st);
	while (st->window.count > 1 && (st->window.count > keep || is_over(st))) {
		struct entry *last = window_last(&st->window);
		struct place place = window_place(last);

		if (!place_is_before(shadow, place)) {
			st->evict_unix_ms = st->shard->env->now_ms + EVICT_REST_MS;
			return;
		}
		window_remove(&st->window, last);
		st->edge = place;
		stage_put_outside(st, last);
	}
}

void stage_insert(struct stage *st, struct entry *e, double score)
{
	struct place place = { score, e->id };

	if (st->shard->keys && has_edge(st) && !place_is_before(place, st->edge)) {
		stage_put_outside(st, e);
		return;
	}
	window_insert(&st->window, e, score);
	if (st->shard->keys && is_over(st))
		evict(st);
}

void stage_entry_refused(struct stage *st, struct entry *e)
{
	if (e->flags & ENTRY_LISTED)
		st->outside_unwritten++;
	else {
		e->flags |= ENTRY_LISTED;
		TAILQ_INSERT_TAIL(&st->outside, e, link);
		st->outside_unwritten++;
	}
}

static void unlist(struct stage *st, struct entry *e)
{
	if (!(e->flags & ENTRY_LISTED))
		return;
	TAILQ_REMOVE(&st->outside, e, link);
	e->flags &= (uint16_t)~ENTRY_LISTED;
	if (e->home != st->set || (e->flags & ENTRY_DIRTY))
		st->outside_unwritten--;
}

void stage_remove(struct stage *st, struct entry *e)
{
	if (!(e->flags & ENTRY_OUTSIDE)) {
		window_remove(&st->window, e);
		return;
	}
	unlist(st, e);
	e->flags &= (uint16_t)~ENTRY_OUTSIDE;
	shard_account(e, 1);
	st->beyond--;
}

/* Called after the entry has its new home and is no longer dirty. */
void stage_entry_encoded(struct stage *st, struct entry *e)
{
	if (!(e->flags & ENTRY_LISTED))
		return;
	st->outside_unwritten--;
	if (st->is_refilling)
		return;
	TAILQ_REMOVE(&st->outside, e, link);
	e->flags &= (uint16_t)~ENTRY_LISTED;
}

/* ---- refill ----------------------------------------------------------------- */

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count);

static void read_more(struct stage *st)
{
	struct shard *sh = st->shard;

	store_read(sh->env->store, sh->keys, st->set, st->refill_start, st->refill_count,
		   limit_bytes(st) / 2 + 1, false, on_rows, st);
}

void stage_refill(struct stage *st)
{
	struct shard *sh = st->shard;
	size_t limit = limit_messages(st);
	size_t room;

	if (!sh->keys || sh->is_closed || st->is_refilling)
		return;
	if (st->beyond <= st->outside_unwritten || st->window.count > limit / 2 ||
	    (st->window.bytes > limit_bytes(st) / 2))
		return;
	room = limit - st->window.count;
	st->is_refilling = true;
	st->refill_count = room < REFILL_MAX ? (unsigned)room : REFILL_MAX;
	/* One row before the edge is read too: it shows that the place is right. */
	st->refill_start = st->indexed > 0 ? (int64_t)st->indexed - 1 : 0;
	st->refill_count++;
	st->refill_edge = st->edge;
	shard_ref(sh);
	read_more(st);
}

static void take_row(struct stage *st, const struct store_row *row)
{
	struct shard *sh = st->shard;
	struct entry *e = shard_entry_create(sh, row->msg, row->id, row->rank);

	e->home = (uint8_t)st->set;
	e->attempts = row->attempts;
	e->failures = row->failures;
	e->reason = entry_reason_intern(row->reason);
	if (row->attempts)
		e->flags |= ENTRY_TRIES_STORED;
	shard_account(e, 1);
	if (!row->msg && !row->is_corrupt) {
		/* An id without a body: the end of an interrupted removal. */
		shard_remove(e, NULL);
		return;
	}
	if (!row->msg) {
		/* The bytes stay in Redis, where an operator can look at them. */
		e->state = ENTRY_BURIED;
		e->at_unix_ms = sh->env->now_ms;
		if (st->set == STORE_BURIED) {
			shard_entry_free(e);
			return;
		}
		stage_put_outside(&sh->stages[ENTRY_BURIED], e);
		shard_entry_dirty(e);
		return;
	}
	e->state = st->set == STORE_READY     ? ENTRY_READY
		   : st->set == STORE_DELAYED ? ENTRY_DELAYED
					      : ENTRY_BURIED;
	e->at_unix_ms = st->set == STORE_READY ? 0 : (int64_t)row->score;
	if (st->set == STORE_READY)
		e->rank = row->score;
	window_insert(&st->window, e, row->score);
}

/* What was placed outside while the read was under way: the edge has moved. */
static void settle_outside(struct stage *st)
{
	struct entry *e, *next;

	for (e = TAILQ_FIRST(&st->outside); e; e = next) {
		double score = st->set == STORE_READY ? e->rank : (double)e->at_unix_ms;
		bool is_unwritten = e->home != st->set || (e->flags & ENTRY_DIRTY);

		next = TAILQ_NEXT(e, link);
		if (st->beyond == 0 ||
		    place_is_before((struct place){ score, e->id }, st->edge)) {
			stage_remove(st, e);
			window_insert(&st->window, e, score);
		} else if (!is_unwritten) {
			TAILQ_REMOVE(&st->outside, e, link);
			e->flags &= (uint16_t)~ENTRY_LISTED;
			if (!(e->flags & ENTRY_IN_FLIGHT))
				shard_entry_free(e);
		}
	}
}

static uint64_t count_outside(const struct stage *st)
{
	const struct entry *e;
	uint64_t n = 0;

	TAILQ_FOREACH (e, &st->outside, link)
		n++;
	return n;
}

static void end_refill(struct stage *st, bool is_end)
{
	struct shard *sh = st->shard;

	st->is_refilling = false;
	if (is_end) {
		uint64_t listed = count_outside(st);

		if (st->beyond != listed)
			log_warn("queue shard has %llu messages behind its window, %llu "
				 "were "
				 "expected; the count is corrected",
				 (unsigned long long)listed,
				 (unsigned long long)st->beyond);
		st->beyond = listed;
	}
	settle_outside(st);
	if (st->window.count == 0)
		stage_refill(st);
	if (st->set == STORE_READY)
		sh->ops->on_ready(sh);
	else if (st->set == STORE_DELAYED && st->window.count)
		shard_wake_by(sh, window_first(&st->window)->at_unix_ms);
	else if (st->set == STORE_BURIED)
		shard_kick_continue(sh);
}

static void take_rows(struct stage *st, struct store_row *rows, size_t count)
{
	size_t taken = 0;

	for (size_t i = 0; i < count; i++) {
		struct place place = { rows[i].score, rows[i].id };

		if (place_is_before(place, st->refill_edge))
			continue;
		st->edge = (struct place){ rows[i].score, rows[i].id + 1 };
		if (st->beyond > 0)
			st->beyond--;
		take_row(st, &rows[i]);
		taken++;
	}
	if (taken == 0 && count > 0) {
		/* All of them were before the edge: go on behind them. */
		st->refill_start += (int64_t)count;
		read_more(st);
		return;
	}
	end_refill(st, count == 0);
	shard_unref(st->shard);
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct stage *st = ctx;
	struct shard *sh = st->shard;
	struct place first =
		count ? (struct place){ rows[0].score, rows[0].id } : st->refill_edge;

	if (st->is_void) {
		st->is_void = st->is_refilling = false;
		settle_outside(st);
		shard_unref(sh);
		return;
	}
	if (sh->is_closed || status < 0) {
		if (!sh->is_closed && status != TIDE_ESHUTDOWN)
			log_warn("cannot read more messages: %s",
				 text ? text : error_text(status));
		st->is_refilling = false;
		if (!sh->is_closed)
			settle_outside(st);
		shard_unref(sh);
		return;
	}
	if (st->refill_start > 0 && !place_is_before(first, st->refill_edge)) {
		/* Something else has changed the set: count from its beginning. */
		st->refill_start = 0;
		read_more(st);
		return;
	}
	take_rows(st, rows, count);
}

uint64_t stage_forget_beyond(struct stage *st)
{
	uint64_t n = st->beyond;

	st->beyond = 0;
	st->is_void = st->is_refilling;
	return n;
}

void stage_recover(struct stage *st, uint64_t count)
{
	st->beyond = count;
	st->edge = (struct place){ -DBL_MAX, 0 };
}
