#include "stage.h"

#include <float.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/mem.h"
#include "host/log.h"
#include "dedupe.h"
#include "journal.h"

#define REFILL_MAX 2048 /* rows of one read: some 2 ms of Redis's time */

/* Over the broker's soft limit every window makes do with a fraction, and over twice the
 * limit with a fraction of that: what Redis has need not hold publishers back. */
#define SHRINK 16

void stage_init(struct stage *st, struct shard *sh, enum store_set set,
		struct pool *lanes)
{
	*st = (struct stage){ .shard = sh, .set = set };
	window_init(&st->window, lanes);
	TAILQ_INIT(&st->outside);
}

static size_t limit(const struct shard_env *env, size_t full)
{
	if (env->memory_bytes <= env->memory_soft_bytes)
		return full;
	return env->memory_bytes / 2 <= env->memory_soft_bytes ? full / SHRINK
							       : full / SHRINK / SHRINK;
}

static size_t limit_messages(const struct stage *st)
{
	size_t most = limit(st->shard->env, st->shard->env->window_messages);

	return most > 2 ? most : 2;
}

static size_t limit_bytes(const struct stage *st)
{
	return limit(st->shard->env, st->shard->env->window_bytes);
}

static bool is_over(const struct stage *st)
{
	return st->window.count > limit_messages(st) ||
	       (st->window.bytes > limit_bytes(st) && st->window.count > 1);
}

static bool has_edge(const struct stage *st)
{
	return st->beyond > 0 || (st->is_refilling && !st->is_void);
}

static bool is_unwritten(const struct stage *st, const struct entry *e)
{
	return e->home != st->set || (e->flags & OWED_WRITE);
}

static struct place entry_place(const struct stage *st, const struct entry *e)
{
	return (struct place){ st->set == STORE_READY ? e->rank : (double)e->at_unix_ms,
			       e->id };
}

static void raise_shadow(struct place *max, struct place place)
{
	if (place_is_before(*max, place))
		*max = place;
}

/* Is the place by which Redis's set names the entry another than its place in this
 * stage, where it may not be at all? */
static bool is_misplaced(const struct stage *st, const struct entry *e)
{
	if (e->home != st->set)
		return false;
	return e->state != st->set ||
	       (e->flags & (OWED_SCORE | LIES_OUTSIDE)) == OWED_SCORE;
}

/* The last place that Redis's set names, now or after the next batch, for a message that
 * is not in this stage: it is held, or on its way to another set. With the edge before
 * that place, a refill would bring the message again. */
static struct place last_shadow(const struct stage *st)
{
	const struct shard *sh = st->shard;
	struct place max = { -DBL_MAX, 0 }, old;
	const struct entry *e;

	if (journal_last_old_place(sh, st->set, &old))
		raise_shadow(&max, old);
	TAILQ_FOREACH (e, &sh->dirty, dirty_link)
		if (is_misplaced(st, e))
			raise_shadow(&max, (struct place){ e->stored_score, e->id });
	TAILQ_FOREACH (e, &sh->moving, link)
		if (e->home == st->set)
			raise_shadow(&max, (struct place){ e->stored_score, e->id });
	if (st->set != STORE_READY)
		return max;
	if (sh->order)
		raise_shadow(&max, order_shadow(sh->order, st->is_refilling));
	TAILQ_FOREACH (e, &sh->young, link)
		raise_shadow(&max, (struct place){ e->rank, e->id });
	return max;
}

static void list(struct stage *st, struct entry *e)
{
	e->flags |= LIES_LISTED;
	TAILQ_INSERT_TAIL(&st->outside, e, link);
	shard_entry_leaving(e);
}

/* Few messages expire: those that do not pay for one test. */
static inline void window_enter(struct stage *st, struct entry *e, double score)
{
	if (__builtin_expect(e->expires_unix_ms != 0, 0))
		shard_expiry_enter(st, e);
	window_insert(&st->window, e, score);
}

static inline void window_leave(struct stage *st, struct entry *e)
{
	if (__builtin_expect(e->expires_unix_ms != 0, 0))
		shard_expiry_leave(st, e);
	shard_entry_leaving(e);
	window_remove(&st->window, e);
}

/* Make an entry that is in no window one beyond the edge. It may be freed by the call. */
static void put_outside(struct stage *st, struct entry *e)
{
	bool is_written = !is_unwritten(st, e);

	shard_account(e, -1);
	e->flags |= LIES_OUTSIDE;
	shard_account(e, 1);
	st->beyond++;
	if (e->expires_unix_ms && st->set != STORE_BURIED)
		shard_take_note_expiry(st->shard, e->expires_unix_ms);
	if (is_written && !st->is_refilling) {
		if (!(e->flags & OWED_ANSWER))
			shard_entry_free(e);
		return;
	}
	list(st, e);
	if (!is_written)
		st->outside_unwritten++;
}

/* Put an entry without a body beyond the edge: it may never be in a window. It gets a
 * time behind all others, and may be freed by the call. */
static void put_last(struct stage *st, struct entry *e)
{
	const struct entry *last = window_last(&st->window);
	int64_t at_unix_ms = st->shard->env->now_ms + 1;

	if (last && last->at_unix_ms >= at_unix_ms)
		at_unix_ms = last->at_unix_ms + 1;
	if (!has_edge(st))
		st->edge = (struct place){ (double)at_unix_ms, 0 };
	else if (st->edge.score >= (double)at_unix_ms)
		at_unix_ms = (int64_t)st->edge.score + 1;
	e->at_unix_ms = at_unix_ms;
	put_outside(st, e);
}

#define EVICT_REST_MS 10

static void give_back(void *ctx, struct entry *e)
{
	struct stage *st = ctx;

	if (e->expires_unix_ms)
		shard_expiry_leave(st, e);
	put_outside(st, e);
}

/* Entries parked behind the edge are Redis's again, like all others there. */
static void give_back_parked(struct stage *st)
{
	struct order *o = st->set == STORE_READY ? st->shard->order : NULL;
	uint64_t ids;

	if (!o || !has_edge(st))
		return;
	ids = order_give_back(o, st->edge, give_back, st);
	st->indexed -= ids;
	st->beyond += ids;
}

/* Give the last entries back to Redis, some more than are over the limits, so
 * that the search for shadows is not made for each of them. */
static void evict(struct stage *st)
{
	size_t few = st->window.count - st->window.count / SHRINK;
	size_t most = limit_messages(st) - limit_messages(st) / SHRINK;
	size_t keep = few < most ? few : most;
	struct place shadow;

	if (st->shard->is_held_back ||
	    duration_is_resting(st->shard->env->now_ms, st->evict_unix_ms, EVICT_REST_MS))
		return;
	shadow = last_shadow(st);
	while (st->window.count > 1 && (st->window.count > keep || is_over(st))) {
		struct entry *last = window_last(&st->window);
		struct place place = window_place(last);

		if (!place_is_before(shadow, place)) {
			st->evict_unix_ms = st->shard->env->now_ms + EVICT_REST_MS;
			break;
		}
		window_leave(st, last);
		st->edge = place;
		put_outside(st, last);
	}
	give_back_parked(st);
}

void stage_set_aside(struct stage *st, struct entry *e)
{
	window_leave(st, e);
	if (e->expires_unix_ms)
		shard_expiry_enter(st, e);
}

void stage_relieve(struct stage *st)
{
	if (st->shard->keys && is_over(st))
		evict(st);
}

static inline void count_waiting(const struct stage *st, const struct entry *e, int sign)
{
	if (st->set != STORE_BURIED && e->msg)
		st->shard->waiting_bytes +=
			(uint64_t)(sign * (int64_t)e->msg->payload_len);
}

void stage_insert(struct stage *st, struct entry *e, double score)
{
	struct place place = { score, e->id };

	count_waiting(st, e, 1);
	if (st->shard->keys && has_edge(st) && !place_is_before(place, st->edge)) {
		put_outside(st, e);
		return;
	}
	window_enter(st, e, score);
	if (st->shard->keys && is_over(st))
		evict(st);
}

void stage_entry_refused(struct stage *st, struct entry *e)
{
	if (!(e->flags & LIES_LISTED))
		list(st, e);
	st->outside_unwritten++;
}

static void unlist(struct stage *st, struct entry *e)
{
	if (!(e->flags & LIES_LISTED))
		return;
	shard_entry_leaving(e);
	TAILQ_REMOVE(&st->outside, e, link);
	e->flags &= (uint16_t)~LIES_LISTED;
	if (is_unwritten(st, e))
		st->outside_unwritten--;
}

static void take_out(struct stage *st, struct entry *e)
{
	if (!(e->flags & (LIES_OUTSIDE | LIES_PARKED))) {
		window_leave(st, e);
		return;
	}
	if (e->flags & LIES_PARKED) {
		if (e->expires_unix_ms)
			shard_expiry_leave(st, e);
		order_unpark(st->shard->order, e);
		return;
	}
	unlist(st, e);
	shard_account(e, -1);
	e->flags &= (uint16_t)~LIES_OUTSIDE;
	shard_account(e, 1);
	st->beyond--;
}

void stage_remove(struct stage *st, struct entry *e)
{
	count_waiting(st, e, -1);
	take_out(st, e);
}

/* Called after the entry has its new home and is no longer dirty. */
void stage_entry_encoded(struct stage *st, struct entry *e)
{
	if (!(e->flags & LIES_LISTED))
		return;
	st->outside_unwritten--;
	if (st->is_refilling)
		return;
	shard_entry_leaving(e);
	TAILQ_REMOVE(&st->outside, e, link);
	e->flags &= (uint16_t)~LIES_LISTED;
}

/* Redis has it, beyond the edge: it is not needed here. */
static void drop_written(struct stage *st, struct entry *e)
{
	unlist(st, e);
	if (!(e->flags & OWED_ANSWER))
		shard_entry_free(e);
}

#define LOCATE_MAX 4096 /* rows of a read of ids alone */

/* After a read that failed. */
#define REFILL_RETRY_MS 500

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count);

static void read_more(struct stage *st)
{
	struct shard *sh = st->shard;

	store_read(sh->env->store, sh->keys,
		   &(struct store_read){ .set = st->set,
					 .start = st->refill_start,
					 .count = st->is_locating ? LOCATE_MAX
								  : st->refill_count,
					 .max_bytes = st->refill_bytes,
					 .ids_only = st->is_locating },
		   on_rows, st);
}

static void into_window(struct stage *st, struct entry *e)
{
	take_out(st, e);
	window_enter(st, e, entry_place(st, e).score);
}

/* Redis has none of those that are beyond the edge: they need not go there and
 * back before somebody can have them. */
static void bring_in(struct stage *st)
{
	struct entry *e, *next;

	for (e = TAILQ_FIRST(&st->outside); e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->msg)
			into_window(st, e);
	}
}

void stage_refill(struct stage *st)
{
	struct shard *sh = st->shard;
	size_t limit = limit_messages(st);
	size_t room;

	if (!sh->keys || sh->is_closed || sh->is_committing || st->is_refilling ||
	    st->beyond == 0 || sh->take.is_taking || sh->take.is_next)
		return;
	if (st->beyond == st->outside_unwritten) {
		if (st->window.count == 0)
			bring_in(st);
		return;
	}
	if (sh->is_held_back || st->window.count > limit / 2 ||
	    st->window.bytes > limit_bytes(st) / 2)
		return;
	room = limit - st->window.count;
	st->is_refilling = true;
	st->refill_count = room < REFILL_MAX ? (unsigned)room : REFILL_MAX;
	/* One row before the edge is read too: it shows that the place is right. */
	st->refill_start = st->indexed > 0 ? (int64_t)st->indexed - 1 : 0;
	st->refill_count++;
	st->refill_bytes = limit_bytes(st) / 2 + 1;
	st->is_locating = false;
	st->refill_edge = st->edge;
	shard_ref(sh);
	read_more(st);
}

/* The literal for a failure's reason; NULL for "". */
static const char *intern_reason(const char *text)
{
	static const char *const known[] = { "nack", "timeout", "gone", "expired",
					     "rejected" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i], text) == 0)
			return known[i];
	return text[0] ? "unknown" : NULL;
}

struct entry *stage_row_entry(struct shard *sh, const struct store_row *row,
			      enum store_set set)
{
	struct entry *e = shard_entry_create(sh, row->msg, row->id, row->rank);

	e->home = (uint8_t)set;
	e->stored_score = row->score;
	e->deliveries = row->deliveries;
	e->failures = row->failures;
	e->reason = intern_reason(row->reason);
	memcpy(e->failed, row->failed, sizeof(e->failed));
	if (row->deliveries || set == STORE_UNACK)
		e->flags |= LIES_TRIED;
	shard_account(e, 1);
	if (row->msg)
		return e;
	if (!row->is_corrupt) {
		/* An id without a body: the end of an interrupted removal. */
		e->state = ENTRY_GONE;
		if (sh->dedupe.is_queued)
			dedupe_done(e);
		shard_entry_dirty(e);
	} else if (set == STORE_BURIED) {
		shard_entry_free(e);
	} else {
		/* The bytes stay in Redis, where an operator can look at them. */
		e->state = ENTRY_BURIED;
		shard_entry_dirty(e);
		put_last(&sh->stages[ENTRY_BURIED], e);
	}
	return NULL;
}

static void take_row(struct stage *st, const struct store_row *row)
{
	struct entry *e = stage_row_entry(st->shard, row, st->set);

	if (!e)
		return;
	e->state = (uint8_t)st->set;
	if (st->set == STORE_READY)
		e->rank = row->score;
	else
		e->at_unix_ms = (int64_t)row->score;
	if (st->set == STORE_DELAYED && st->shard->order)
		order_adopt(st->shard->order, e);
	window_enter(st, e, row->score);
}

/* Settle the entries that were placed outside while the read was under way: the edge
 * has moved. */
static void settle_outside(struct stage *st)
{
	struct entry *e, *next;

	for (e = TAILQ_FIRST(&st->outside); e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->msg && place_is_before(entry_place(st, e), st->edge))
			into_window(st, e);
		else if (!is_unwritten(st, e))
			drop_written(st, e);
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

/* Redis has nothing beyond the edge but what was placed there meanwhile. */
static void correct_beyond(struct stage *st)
{
	uint64_t listed = count_outside(st);

	if (st->beyond != listed)
		log_warn("a shard has %llu messages beyond its window, not %llu; "
			 "correcting the count",
			 (unsigned long long)listed, (unsigned long long)st->beyond);
	st->beyond = listed;
}

/* The read is over, whatever it has brought. */
static void end_refill(struct stage *st)
{
	struct shard *sh = st->shard;

	st->is_refilling = st->is_void = false;
	if (!sh->is_closed) {
		settle_outside(st);
		if (st->window.count == 0)
			stage_refill(st);
		if (st->set == STORE_READY)
			sh->env->ops->on_ready(sh);
		else if (st->set == STORE_DELAYED && st->window.count)
			shard_wake_by(sh, window_first(&st->window)->at_unix_ms);
		if (st->set != STORE_READY)
			shard_kick_continue(sh);
		if (sh->take.due_ms)
			shard_wake_by(sh, sh->take.due_ms);
		if (!TAILQ_EMPTY(&sh->take.asks))
			shard_wake_by(sh, sh->env->now_ms);
	}
	shard_unref(sh);
}

static void fail_refill(struct stage *st, int status, const char *text)
{
	struct shard *sh = st->shard;

	st->is_refilling = false;
	if (status != TIDE_ESHUTDOWN) {
		log_warn("cannot read more messages: %s",
			 text ? text : error_text(status));
		settle_outside(st);
		shard_wake_by(sh, sh->env->now_ms + REFILL_RETRY_MS);
	}
	shard_unref(sh);
}

/* Ids of messages in memory that a read may bring: outside ones of which Redis has an
 * older state or which were written during the read, and those that Redis may have
 * anywhere. */
struct stage_known {
	uint64_t *ids;
	size_t count;
};

static void known_init(struct stage_known *k, const struct stage *st)
{
	const struct shard *sh = st->shard;
	size_t most = (size_t)count_outside(st) + sh->flight.count;
	const struct entry *e;

	*k = (struct stage_known){ 0 };
	TAILQ_FOREACH (e, &sh->dirty, dirty_link)
		most += (e->flags & OWED_UNSURE) != 0;
	if (most == 0)
		return;
	k->ids = mem_alloc(most * sizeof(*k->ids));
	TAILQ_FOREACH (e, &st->outside, link)
		if (e->home == st->set)
			k->ids[k->count++] = e->id;
	TAILQ_FOREACH (e, &sh->dirty, dirty_link)
		if (e->flags & OWED_UNSURE)
			k->ids[k->count++] = e->id;
	k->count += journal_flying_unsure(sh, k->ids + k->count);
	qsort(k->ids, k->count, sizeof(*k->ids), id_compare);
}

static bool known_has(const struct stage_known *k, uint64_t id)
{
	return k->count > 0 &&
	       bsearch(&id, k->ids, k->count, sizeof(*k->ids), id_compare) != NULL;
}

static void take_rows(struct stage *st, struct store_row *rows, size_t count)
{
	struct stage_known known;

	known_init(&known, st);
	for (size_t i = 0; i < count; i++) {
		if (place_is_before(place_of_row(&rows[i]), st->refill_edge))
			continue;
		st->edge = (struct place){ rows[i].score, rows[i].id + 1 };
		if (known_has(&known, rows[i].id))
			continue;
		if (st->beyond > 0)
			st->beyond--;
		take_row(st, &rows[i]);
	}
	mem_free(known.ids);
	if (count == 0)
		correct_beyond(st);
	end_refill(st);
}

/* The set is not what it was thought to be before the edge, or the one message
 * before it is larger than a read: look for the place by the ids alone. */
static void locate(struct stage *st)
{
	st->is_locating = true;
	st->refill_start = 0;
	/* Else a large message could stand in the way for ever. */
	if (st->refill_bytes < SIZE_MAX / 2)
		st->refill_bytes *= 2;
	read_more(st);
}

/* The read by the place that was found shows whether it is still right. */
static void take_located(struct stage *st, const struct store_row *rows, size_t count)
{
	int64_t at = st->refill_start;

	for (size_t i = 0; i < count; i++, at++) {
		if (place_is_before(place_of_row(&rows[i]), st->refill_edge))
			continue;
		st->is_locating = false;
		st->refill_start = at > 0 ? at - 1 : 0;
		read_more(st);
		return;
	}
	st->refill_start = at;
	if (count > 0) {
		read_more(st);
		return;
	}
	correct_beyond(st);
	end_refill(st);
}

/* The first row must be before the edge, and the last one behind it. */
static bool is_right_place(const struct stage *st, const struct store_row *rows,
			   size_t count)
{
	if (count == 0)
		return st->refill_start == 0;
	return (st->refill_start == 0 ||
		place_is_before(place_of_row(&rows[0]), st->refill_edge)) &&
	       !place_is_before(place_of_row(&rows[count - 1]), st->refill_edge);
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct stage *st = ctx;

	if (st->shard->is_closed || st->is_void)
		end_refill(st);
	else if (status < 0)
		fail_refill(st, status, text);
	else if (st->is_locating)
		take_located(st, rows, count);
	else if (is_right_place(st, rows, count))
		take_rows(st, rows, count);
	else
		locate(st);
}

uint64_t stage_forget_beyond(struct stage *st)
{
	struct entry *e, *next;
	uint64_t listed, n;

	if (!has_edge(st))
		st->edge = (struct place){ DBL_MAX, UINT64_MAX };
	for (e = TAILQ_FIRST(&st->outside); e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (!is_unwritten(st, e))
			drop_written(st, e);
	}
	listed = count_outside(st);
	n = st->beyond - listed;
	st->beyond = listed;
	st->is_void = st->is_refilling;
	return n;
}

void stage_restore_beyond(struct stage *st, uint64_t count)
{
	struct entry *e;

	if (count == 0)
		return;
	while ((e = window_last(&st->window)) != NULL &&
	       !place_is_before(window_place(e), st->edge)) {
		window_leave(st, e);
		put_outside(st, e);
	}
	st->beyond += count;
	give_back_parked(st);
}

void stage_recover(struct stage *st, uint64_t count)
{
	st->beyond = count;
	st->edge = (struct place){ -DBL_MAX, 0 };
	/* The expiry times are not known. */
	if (count > 0 && st->set != STORE_BURIED)
		shard_take_note_expiry(st->shard, st->shard->env->now_ms);
}
