#include "shard.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/id.h"
#include "base/mem.h"
#include "host/log.h"
#include "store/store.h"
#include "dedupe.h"
#include "journal.h"

/* A publish pays for no call. */
static inline __attribute__((always_inline)) struct entry *
create(struct shard *sh, struct msg *m, uint64_t id, double rank)
{
	struct entry *e = pool_take(&sh->env->entries);

	*e = (struct entry){
		.msg = m ? msg_ref(m) : NULL,
		.id = id,
		.shard = sh,
		.rank = rank,
		.home = HOME_NONE,
	};
	if (m) {
		e->expires_unix_ms = m->expires_unix_ms;
		sh->env->memory_bytes += m->bytes;
	}
	if (__builtin_expect(sh->by_id != NULL, 0))
		shard_index_created(e);
	return e;
}

struct entry *shard_entry_create(struct shard *sh, struct msg *m, uint64_t id,
				 double rank)
{
	return create(sh, m, id, rank);
}

void shard_entry_free(struct entry *e)
{
	struct shard_env *env = e->shard->env;

	if (e->flags & LIES_IN_COMMIT)
		return; /* it is freed when its commit ends */
	if (__builtin_expect(e->shard->by_id != NULL, 0))
		shard_index_freed(e);
	if (__builtin_expect(e->shard->dedupe.is_queued, 0))
		dedupe_freed(e);
	if (e->msg)
		env->memory_bytes -= e->msg->bytes;
	msg_unref(e->msg);
	pool_give(&env->entries, e);
}

void shard_account(struct entry *e, int delta)
{
	if (e->home < SHARD_STAGES && shard_is_indexed(e))
		e->shard->stages[e->home].indexed += (uint64_t)(int64_t)delta;
}

void shard_entry_clean(struct entry *e)
{
	struct shard *sh = e->shard;

	if (!(e->flags & OWED_WRITE))
		return;
	e->flags &= (uint16_t)~OWED_WRITE;
	TAILQ_REMOVE(&sh->dirty, e, dirty_link);
	if (!shard_is_dirty(sh))
		journal_drop(sh->env->journal, sh);
}

void shard_entry_dirty(struct entry *e)
{
	struct shard *sh = e->shard;

	if (!sh->keys || (e->flags & OWED_WRITE))
		return;
	e->flags |= OWED_WRITE;
	TAILQ_INSERT_TAIL(&sh->dirty, e, dirty_link);
	journal_add(sh->env->journal, sh);
}

struct shard *shard_create(struct shard_env *env, void *owner, unsigned index,
			   struct store_shard *keys_take)
{
	struct shard *sh = mem_zalloc(sizeof(*sh));

	sh->env = env;
	sh->owner = owner;
	sh->index = index;
	sh->refs = 1;
	sh->keys = keys_take;
	sh->newest = NAN;
	for (int i = 0; i < SHARD_STAGES; i++)
		stage_init(&sh->stages[i], sh, (enum store_set)i, &env->lanes);
	for (int i = 0; i < DEDUPE_STATE_COUNT; i++)
		TAILQ_INIT(&sh->dedupe.lists[i]);
	window_init(&sh->held, &env->lanes);
	TAILQ_INIT(&sh->young);
	TAILQ_INIT(&sh->moving);
	TAILQ_INIT(&sh->dirty);
	TAILQ_INIT(&sh->take.asks);
	return sh;
}

bool shard_is_empty(const struct shard *sh)
{
	bool is_empty = sh->unacked == 0 && TAILQ_EMPTY(&sh->moving) && !sh->is_held_back;

	for (int i = 0; i < SHARD_STAGES; i++)
		is_empty &= shard_count(sh, (enum entry_state)i) == 0 &&
			    !sh->stages[i].is_refilling;
	return is_empty;
}

bool shard_is_unused(const struct shard *sh)
{
	bool is_empty =
		shard_is_empty(sh) && TAILQ_EMPTY(&sh->dirty) && sh->flight.count == 0;

	for (int i = 0; i < DEDUPE_STATE_COUNT; i++)
		is_empty &= TAILQ_EMPTY(&sh->dedupe.lists[i]);
	return is_empty && sh->refs == 1 && !sh->kick && !sh->is_journaled &&
	       !sh->take.due_ms && !sh->take.is_taking && TAILQ_EMPTY(&sh->take.asks) &&
	       !sh->by_id && !sh->take.last_number;
}

struct shard *shard_ref(struct shard *sh)
{
	sh->refs++;
	return sh;
}

void shard_unref(struct shard *sh)
{
	if (--sh->refs > 0)
		return;
	order_destroy(sh->order);
	shard_index_destroy(sh);
	store_shard_destroy(sh->keys);
	mem_free(sh);
}

void shard_wake_by(struct shard *sh, int64_t at_ms)
{
	if (!sh->is_closed && (!heap_has(&sh->timer) || sh->timer.key > at_ms))
		heap_set(sh->env->timers, &sh->timer, at_ms);
}

uint64_t shard_count(const struct shard *sh, enum entry_state state)
{
	uint64_t parked = state == ENTRY_READY ? shard_parked(sh) : 0;

	if (state == ENTRY_UNACKED)
		return sh->unacked;
	return sh->stages[state].window.count + sh->stages[state].beyond + parked;
}

/* The entry is in no consumer's hands any more. */
static void leave_hands(struct entry *e)
{
	struct shard *sh = e->shard;

	if (e->lane)
		window_remove(&sh->held, e);
	else
		TAILQ_REMOVE(&sh->young, e, link);
	sh->unacked--;
}

/* Take the entry out of where its state keeps it. Its group is the caller's business. */
static inline void leave_place(struct entry *e)
{
	struct shard *sh = e->shard;

	if (e->state < SHARD_STAGES) {
		stage_remove(&sh->stages[e->state], e);
		return;
	}
	shard_entry_leaving(e);
	if (e->state == ENTRY_MOVING) {
		TAILQ_REMOVE(&sh->moving, e, link);
		e->flags &= (uint16_t)~LIES_LEDGERED;
	} else if (e->state == ENTRY_UNACKED) {
		leave_hands(e);
		e->flags &= (uint16_t)~LIES_LEDGERED;
		e->lease = NULL;
	}
}

/* Others of its group may come next. Its state is still the old one. */
static __attribute__((noinline)) void leave_group(struct entry *e)
{
	struct shard *sh = e->shard;

	if (e->group)
		order_release(sh->order, e);
	else if (e->state == ENTRY_READY)
		order_left(sh->order, e);
	if (!sh->is_closed)
		sh->env->ops->on_ready(sh);
}

static void entry_leave(struct entry *e)
{
	leave_place(e);
	if (e->shard->order)
		leave_group(e);
}

/* Of the group it may have had a slot, through a commit. What was delivered before keeps
 * its group waiting until it is due. */
static __attribute__((noinline)) void enter_group(struct entry *e, enum entry_state state)
{
	struct order *o = e->shard->order;

	if (e->group) {
		order_release(o, e);
		e->shard->env->ops->on_ready(e->shard);
	}
	if (state == ENTRY_DELAYED && e->deliveries > 0)
		order_take(o, e, true);
}

void shard_entry_place(struct entry *e, enum entry_state state, double score)
{
	struct shard *sh = e->shard;

	if (sh->order)
		enter_group(e, state);
	if (__builtin_expect(sh->has_passed, 0) && state == ENTRY_READY)
		sh->env->ops->on_entering(e);
	e->state = (uint8_t)state;
	if (state == ENTRY_DELAYED)
		shard_wake_by(sh, e->at_unix_ms);
	stage_insert(&sh->stages[state], e, score);
	if (state == ENTRY_READY)
		sh->env->ops->on_ready(sh);
}

/* The call frees an entry that Redis alone is to keep, unless it is dirty. It may have
 * left this stage since the last batch, and come back with another time. */
void shard_entry_enter(struct entry *e, enum entry_state state, double score)
{
	const struct stage *st = &e->shard->stages[state];

	if (e->home == st->set && state != ENTRY_READY)
		e->flags |= OWED_SCORE;
	if (e->home != st->set || (e->flags & (OWED_TRIES | OWED_SCORE)))
		shard_entry_dirty(e);
	shard_entry_place(e, state, score);
}

/* Among the ready ones, or the delayed ones until it is due. */
static inline void enter_by(struct entry *e, int64_t due_ms)
{
	if (due_ms > e->shard->env->now_ms) {
		e->at_unix_ms = due_ms;
		shard_entry_enter(e, ENTRY_DELAYED, (double)due_ms);
	} else {
		shard_entry_enter(e, ENTRY_READY, e->rank);
	}
}

/* A delayed message lives for as long behind its due time. */
static __attribute__((noinline)) void limit_life(struct entry *e)
{
	const struct shard *sh = e->shard;
	int64_t now_ms = sh->env->now_ms, due_ms = e->msg->due_unix_ms;
	int64_t end_ms = (due_ms > now_ms ? due_ms : now_ms) + sh->ttl_ms;

	if (!e->expires_unix_ms || e->expires_unix_ms > end_ms)
		e->expires_unix_ms = end_ms;
}

static inline __attribute__((always_inline)) struct entry *
begin(struct shard *sh, struct msg *m, double rank)
{
	struct entry *e = create(sh, m, m->id, rank);

	sh->newest = rank;
	if (sh->ttl_ms)
		limit_life(e);
	if (sh->keys) {
		e->flags |= LIES_UNSTORED;
		sh->env->unstored_bytes += m->bytes;
		sh->unstored.messages++;
		sh->unstored.bytes += m->payload_len;
	}
	return e;
}

struct entry *shard_entry_begin(struct shard *sh, struct msg *m, double rank)
{
	return begin(sh, m, rank);
}

void shard_publish(struct shard *sh, struct msg *m, double rank, struct waiter *waiter,
		   bool has_id)
{
	struct entry *e = begin(sh, m, rank);

	if (sh->keys && waiter) {
		waiter_add(waiter);
		e->waiter = waiter;
		e->flags |= has_id ? OWED_ID : 0;
	}
	enter_by(e, m->due_unix_ms);
}

void shard_forget_ranks(struct shard *sh)
{
	sh->served = sh->newest = NAN;
}

struct entry *shard_front(struct shard *sh, enum entry_state state)
{
	struct stage *st = &sh->stages[state];

	stage_refill(st);
	return window_first(&st->window);
}

struct entry *shard_first_ready(struct shard *sh)
{
	struct stage *st = &sh->stages[ENTRY_READY];

	stage_refill(st);
	return window_first(&st->window);
}

static __attribute__((noinline)) void take_slot(struct entry *e)
{
	struct order *o = e->shard->order;

	if (e->group)
		order_release(o, e);
	order_take(o, e, false);
}

void shard_hold(struct entry *e, uint32_t lease_ms)
{
	struct shard *sh = e->shard;
	int64_t now_ms = sh->env->now_ms;

	leave_place(e);
	sh->served = e->rank;
	if (sh->order)
		take_slot(e);
	e->state = ENTRY_UNACKED;
	e->deliveries++;
	e->lease_ms = lease_ms;
	e->at_unix_ms = now_ms;
	TAILQ_INSERT_TAIL(&sh->young, e, link);
	sh->unacked++;
	shard_wake_by(sh, now_ms + YOUNG_MS);
}

/* Held for long: it goes into the ledger. */
static void enter_ledger(struct entry *e)
{
	struct shard *sh = e->shard;

	window_insert(&sh->held, e, (double)e->at_unix_ms);
	e->flags |= LIES_LEDGERED | OWED_TRIES;
	/* The entry may be there already, by an older time. */
	if (e->home == STORE_UNACK)
		e->flags |= OWED_SCORE;
	shard_entry_dirty(e);
}

static void end_youth(struct entry *e)
{
	shard_entry_leaving(e);
	TAILQ_REMOVE(&e->shard->young, e, link);
	enter_ledger(e);
}

void shard_ledger_found(struct entry *e)
{
	/* With another rank it may be written behind the edge. */
	bool is_before = e->home == STORE_READY && !(e->flags & OWED_BODY);

	if (e->shard->keys && !is_before)
		end_youth(e);
}

/* Taken out first: each finds its new place. */
void shard_step_clock(struct shard *sh, int64_t step_ms)
{
	struct entry_list moved = TAILQ_HEAD_INITIALIZER(moved);
	struct entry *e;

	TAILQ_FOREACH (e, &sh->young, link)
		e->at_unix_ms += step_ms;
	while ((e = window_first(&sh->held)) != NULL) {
		window_remove(&sh->held, e);
		TAILQ_INSERT_TAIL(&moved, e, link);
	}
	while ((e = TAILQ_FIRST(&moved)) != NULL) {
		TAILQ_REMOVE(&moved, e, link);
		e->at_unix_ms += step_ms;
		window_insert(&sh->held, e, (double)e->at_unix_ms);
	}
	/* Whatever it wanted to look at later, at a time that now means another. */
	shard_wake_by(sh, sh->env->now_ms);
}

void shard_revise(struct entry *e, struct msg *m, double rank)
{
	struct shard *sh = e->shard;
	bool is_old = e->lane != NULL;

	/* The place in Redis stays by the rank of before until it is written. */
	if (e->home != HOME_NONE)
		e->flags |= OWED_BODY | OWED_SCORE;
	if (is_old)
		window_remove(&sh->held, e);
	sh->env->memory_bytes += m->bytes - e->msg->bytes;
	if (e->flags & LIES_UNSTORED) {
		sh->env->unstored_bytes += m->bytes - e->msg->bytes;
		sh->unstored.bytes += m->payload_len - e->msg->payload_len;
	}
	msg_unref(e->msg);
	e->msg = msg_ref(m);
	e->rank = rank;
	if (is_old)
		window_insert(&sh->held, e, (double)e->at_unix_ms);
}

void shard_return(struct entry *e, int64_t due_ms)
{
	struct shard *sh = e->shard;

	entry_leave(e);
	/* The delivery was not written while it was held for a moment only. */
	e->flags |= OWED_TRIES;
	enter_by(e, due_ms);
	/* One that is delayed waits, too: the queue may be over a limit. */
	if (due_ms > sh->env->now_ms)
		sh->env->ops->on_ready(sh);
}

void shard_bury(struct entry *e)
{
	entry_leave(e);
	e->flags |= OWED_TRIES;
	e->at_unix_ms = e->shard->env->now_ms;
	shard_entry_enter(e, ENTRY_BURIED, (double)e->at_unix_ms);
}

void shard_move(struct entry *e, enum entry_state state, int64_t at_ms)
{
	entry_leave(e);
	e->at_unix_ms = at_ms;
	shard_entry_enter(e, state, state == ENTRY_READY ? e->rank : (double)at_ms);
}

void shard_forget_failures(struct entry *e)
{
	e->failures = 0;
	e->reason = NULL;
	memset(e->failed, 0, sizeof(e->failed));
	e->flags |= OWED_TRIES;
}

/* Two who wait for one entry. */
struct both_wait {
	struct waiter waiter; /* the entry's */
	struct waiter *first, *second;
};

static void on_both(struct waiter *w)
{
	struct both_wait *both = container_of(w, struct both_wait, waiter);

	waiter_done(both->first, w->status, w->text);
	waiter_done(both->second, w->status, w->text);
	mem_free(both);
}

void shard_wait_stored(struct entry *e, struct waiter *waiter)
{
	struct both_wait *both;

	if (!(e->flags & OWED_WRITE))
		return;
	if (e->flags & OWED_ID) {
		dedupe_wait(e, waiter);
		return;
	}
	e->flags |= OWED_NEXT;
	waiter_add(waiter);
	if (!e->waiter) {
		e->waiter = waiter;
		return;
	}
	both = mem_alloc(sizeof(*both));
	*both = (struct both_wait){ .first = e->waiter, .second = waiter };
	waiter_init(&both->waiter, on_both);
	e->waiter = &both->waiter;
}

void shard_set_moving(struct entry *e)
{
	entry_leave(e);
	e->state = ENTRY_MOVING;
	TAILQ_INSERT_TAIL(&e->shard->moving, e, link);
}

void shard_suspend(struct entry *e)
{
	shard_entry_leaving(e);
	leave_hands(e);
	e->state = ENTRY_MOVING;
	TAILQ_INSERT_TAIL(&e->shard->moving, e, link);
}

void shard_resume_held(struct entry *e)
{
	struct shard *sh = e->shard;

	shard_entry_leaving(e);
	TAILQ_REMOVE(&sh->moving, e, link);
	e->flags |= OWED_TRIES;
	if (!e->lease) {
		e->flags &= (uint16_t)~LIES_LEDGERED;
		shard_entry_enter(e, ENTRY_READY, e->rank);
		return;
	}
	e->state = ENTRY_UNACKED;
	sh->unacked++;
	enter_ledger(e);
}

struct store_tries shard_tries(const struct entry *e, const char *reason)
{
	struct store_tries tries = { e->deliveries, e->failures, e->reason, { 0 } };

	memcpy(tries.failed, e->failed, sizeof(tries.failed));
	if (!reason)
		return tries;
	tries.failures++;
	tries.reason = reason;
	for (unsigned i = 0; i < STORE_REASONS; i++)
		if (strcmp(reason, store_tries_reason(i)) == 0 &&
		    tries.failed[i] < UINT16_MAX)
			tries.failed[i]++;
	return tries;
}

void shard_count_failure(struct entry *e, const char *reason)
{
	const struct store_tries tries = shard_tries(e, reason);

	e->failures = tries.failures;
	e->reason = reason;
	memcpy(e->failed, tries.failed, sizeof(e->failed));
	e->flags |= OWED_TRIES;
}

void shard_remove(struct entry *e, struct waiter *waiter)
{
	entry_leave(e);
	e->state = ENTRY_GONE;
	/* An acknowledged message is confirmed, whether Redis ever saw it or not. Until
	 * its publish id is written, it could be taken a second time. */
	if (e->waiter) {
		if (waiter && (e->flags & OWED_ID))
			dedupe_wait(e, waiter);
		entry_tell(e, TIDE_OK, NULL);
	}
	if (__builtin_expect(e->shard->dedupe.is_queued, 0))
		dedupe_done(e);
	shard_entry_stored(e);
	if (e->home == HOME_NONE && !(e->flags & OWED_ANSWER)) {
		if (e->shard->keys)
			journal_count_elided(e->shard->env->journal);
		shard_entry_clean(e);
		shard_entry_free(e);
		return;
	}
	if (waiter) {
		waiter_add(waiter);
		e->waiter = waiter;
	}
	if (e->home == HOME_NONE)
		shard_entry_clean(e);
	else
		shard_entry_dirty(e);
}

void shard_discard(struct entry *e)
{
	entry_leave(e);
	shard_entry_clean(e);
	shard_entry_free(e);
}

void shard_resume(struct shard *sh)
{
	sh->is_held_back = false;
	if (sh->is_closed)
		return;
	if (!TAILQ_EMPTY(&sh->dirty))
		journal_add(sh->env->journal, sh);
	for (int i = 0; i < SHARD_STAGES; i++)
		stage_relieve(&sh->stages[i]);
	/* Whatever was not asked for meanwhile: the tick finds it. */
	shard_wake_by(sh, sh->env->now_ms);
	sh->env->ops->on_ready(sh);
}

void shard_be_defined(struct shard *sh)
{
	sh->is_undefined = false;
	if (!sh->is_closed && !TAILQ_EMPTY(&sh->dirty))
		journal_add(sh->env->journal, sh);
}

#define TICK_MAX 4096 /* entries of one tick, so that a turn stays short */

static void tick_delayed(struct shard *sh, unsigned *budget)
{
	struct entry *e;

	while ((e = shard_front(sh, ENTRY_DELAYED)) != NULL) {
		if (e->at_unix_ms > sh->env->now_ms || *budget == 0) {
			shard_wake_by(sh, e->at_unix_ms);
			return;
		}
		(*budget)--;
		entry_leave(e);
		shard_entry_enter(e, ENTRY_READY, e->rank);
	}
}

static void tick_young(struct shard *sh, unsigned *budget)
{
	struct entry *e;

	while ((e = TAILQ_FIRST(&sh->young)) != NULL) {
		int64_t due_ms = e->at_unix_ms + YOUNG_MS;

		if (due_ms > sh->env->now_ms || *budget == 0) {
			shard_wake_by(sh, due_ms);
			return;
		}
		(*budget)--;
		end_youth(e);
	}
}

void shard_tick(struct shard *sh)
{
	unsigned budget = TICK_MAX;

	heap_remove(sh->env->timers, &sh->timer);
	if (sh->is_closed)
		return;
	shard_ref(sh);
	tick_young(sh, &budget);
	tick_delayed(sh, &budget);
	if (!sh->is_closed) {
		shard_take_tick(sh);
		/* A read may have failed that they were waiting for. */
		if (sh->stages[ENTRY_READY].beyond || shard_parked(sh) > 0)
			sh->env->ops->on_ready(sh);
		shard_kick_continue(sh);
	}
	shard_unref(sh);
}

/* Forget an entry at once, whatever Redis has of it. */
static void drop(struct entry *e)
{
	entry_leave(e);
	entry_tell(e, TIDE_OK, NULL);
	shard_entry_stored(e);
	shard_entry_clean(e);
	e->state = ENTRY_GONE;
	e->home = HOME_NONE;
	if (!(e->flags & OWED_ANSWER))
		shard_entry_free(e);
}

/* Entries that are freed between two looks at the clock. */
#define CLOSE_STEP 256

/* One of those that are in a stage, held or moving. */
static struct entry *any_entry(const struct shard *sh)
{
	struct entry *e = TAILQ_FIRST(&sh->moving);

	for (int i = 0; i < SHARD_STAGES && !e; i++)
		e = stage_any(&sh->stages[i]);
	if (!e && sh->order)
		e = order_any(sh->order);
	if (!e)
		e = TAILQ_FIRST(&sh->young);
	return e ? e : window_first(&sh->held);
}

/* False when none is left. */
static bool drop_some(struct shard *sh, unsigned max)
{
	struct entry *e = any_entry(sh);

	for (; e && max > 0; max--, e = any_entry(sh))
		drop(e);
	return e != NULL;
}

void shard_close_some(struct shard *sh)
{
	if (drop_some(sh, CLOSE_STEP))
		return;
	TAILQ_REMOVE(&sh->env->closing, sh, closing_link);
	shard_unref(sh);
}

static void drop_dirty(struct shard *sh)
{
	struct entry *e;

	/* The entries that are left were removed before and only wait to be written. */
	while ((e = TAILQ_FIRST(&sh->dirty)) != NULL) {
		shard_entry_clean(e);
		entry_tell(e, TIDE_OK, NULL);
		e->home = HOME_NONE;
		if (!(e->flags & OWED_ANSWER))
			shard_entry_free(e);
	}
}

void shard_close(struct shard *sh)
{
	struct entry *e;

	/* First: those who are told must not look for entries here. */
	sh->is_closed = true;
	if (sh->order)
		order_forget_ids(sh->order);
	/* In memory alone nobody waits for a message, nor is one being moved. */
	if (sh->keys) {
		drop_some(sh, UINT_MAX);
		drop_dirty(sh);
	} else {
		while ((e = TAILQ_FIRST(&sh->moving)) != NULL)
			drop(e);
	}
	shard_kick_cancel(sh);
	shard_take_cancel(sh);
	heap_remove(sh->env->timers, &sh->timer);
	if (sh->keys) {
		shard_unref(sh);
		return;
	}
	TAILQ_INSERT_TAIL(&sh->env->closing, sh, closing_link);
	shard_close_some(sh);
}

/* Ranks that are looked at: a figure must not cost a turn. */
#define LOOKS_MAX 4096
#define FRONT_LOOKS_MAX 64

/* Since when it could have been delivered. */
static int64_t ready_since(const struct entry *e)
{
	const struct msg *m = e->msg;

	if (!m)
		return 0;
	return m->due_unix_ms > m->ts_unix_ms ? m->due_unix_ms : m->ts_unix_ms;
}

static int64_t age_ready(const struct shard *sh, unsigned most)
{
	const struct window *w = &sh->stages[ENTRY_READY].window;
	const struct entry *e;
	unsigned looks = 0;
	int64_t since = 0;
	uint64_t parked;

	/* The first of a rank is its oldest. */
	for (e = window_first(w); e && looks++ < most; e = window_next_score(w, e))
		since = heap_earlier(since, ready_since(e));
	/* Of some that are parked no more is known than the id. */
	if (sh->order && (parked = order_oldest_id(sh->order, most)) != 0)
		since = heap_earlier(since, id_unix_ms(parked));
	return since;
}

int64_t shard_age_ready(const struct shard *sh)
{
	return age_ready(sh, LOOKS_MAX);
}

void shard_age_priorities(const struct shard *sh, int64_t since[UINT8_MAX + 1])
{
	const struct window *w = &sh->stages[ENTRY_READY].window;
	const struct entry *e;
	unsigned looks = 0;

	for (e = window_first(w); e && looks++ < LOOKS_MAX; e = window_next_score(w, e))
		if (e->msg)
			since[e->msg->priority] =
				heap_earlier(since[e->msg->priority], ready_since(e));
}

int64_t shard_age_front(const struct shard *sh)
{
	return age_ready(sh, FRONT_LOOKS_MAX);
}

int64_t shard_age_held(const struct shard *sh)
{
	const struct entry *e = window_first(&sh->held);

	if (!e)
		e = TAILQ_FIRST(&sh->young);
	return e ? e->at_unix_ms : 0;
}

struct shard_expiring {
	struct heap_node node; /* in the heap of the environment */
	struct entry *entry;
};

void shard_expiry_enter(const struct stage *st, struct entry *e)
{
	struct shard_env *env = e->shard->env;
	struct shard_expiring *x;

	if (st->set == STORE_BURIED)
		return;
	x = pool_take(&env->expirings);
	*x = (struct shard_expiring){ .entry = e };
	e->expiring = x;
	heap_set(&env->expiries, &x->node, e->expires_unix_ms);
}

void shard_expiry_leave(const struct stage *st, struct entry *e)
{
	struct shard_env *env = e->shard->env;

	if (st->set == STORE_BURIED)
		return;
	heap_remove(&env->expiries, &e->expiring->node);
	pool_give(&env->expirings, e->expiring);
	e->expiring = NULL;
}

void shard_expiry_init(struct shard_env *env)
{
	pool_init(&env->expirings, sizeof(struct shard_expiring), 4096);
}

void shard_expiry_deinit(struct shard_env *env)
{
	heap_deinit(&env->expiries);
	pool_deinit(&env->expirings);
}

void shard_expiry_turn(struct shard_env *env)
{
	struct heap_node *n;

	while ((n = heap_min(&env->expiries)) != NULL && n->key <= env->now_ms) {
		struct entry *e = container_of(n, struct shard_expiring, node)->entry;

		if (!env->ops->on_expired(e->shard, e))
			return;
	}
}

int64_t shard_expiry_due_ms(const struct shard_env *env)
{
	const struct heap_node *n = heap_min(&env->expiries);

	return n ? n->key : 0;
}

static bool is_counted(uint8_t home)
{
	return home < STORE_SET_COUNT && home != STORE_BURIED;
}

void shard_size_move(const struct entry *e, uint8_t from, uint8_t to)
{
	struct shard_size *size = &e->shard->size;
	uint64_t bytes = e->msg ? e->msg->payload_len : 0;

	/* The body of an interrupted removal went before. */
	if (!e->msg && to == HOME_NONE)
		return;
	if (is_counted(from)) {
		size->stored.messages--;
		size->stored.bytes -= bytes;
	}
	if (is_counted(to)) {
		size->stored.messages++;
		size->stored.bytes += bytes;
	}
	if (is_counted(from) && to == HOME_NONE) {
		size->left.messages--;
		size->left.bytes -= bytes;
	}
}

/* ---- a limit that comes or goes */

static uint64_t sum_window(const struct window *w)
{
	const struct entry *e;
	uint64_t bytes = 0;

	for (e = window_first(w); e; e = window_next(w, e))
		bytes += e->msg ? e->msg->payload_len : 0;
	return bytes;
}

bool shard_size_is_known(struct shard *sh)
{
	const struct stage *ready = &sh->stages[ENTRY_READY];
	const struct stage *delayed = &sh->stages[ENTRY_DELAYED];

	if (!sh->size.is_unknown)
		return true;
	if (ready->beyond || delayed->beyond || shard_is_reading(sh) ||
	    delayed->is_refilling || sh->is_held_back || (sh->order && sh->order->parked))
		return false;
	sh->waiting_bytes = sum_window(&ready->window) + sum_window(&delayed->window);
	sh->size.is_unknown = false;
	return true;
}

/* How many messages are stored was not counted: no start finds so many, and it reads
 * the bodies once. */
#define NEVER_FOUND (UINT64_C(1) << 62)

static bool is_empty(const struct shard *sh)
{
	uint64_t n = sh->unacked + sh->flight.count + sh->unstored.messages;

	for (int i = 0; i < SHARD_STAGES; i++)
		n += sh->stages[i].window.count + sh->stages[i].beyond;
	return n == 0 && TAILQ_EMPTY(&sh->dirty) && TAILQ_EMPTY(&sh->moving);
}

void shard_size_keep(struct shard *sh, bool is_kept)
{
	is_kept = is_kept && sh->keys;
	if (is_kept && !sh->size.is_kept && !is_empty(sh))
		sh->size.stored = (struct store_size){ NEVER_FOUND, 0 };
	sh->size.is_kept = is_kept;
}
