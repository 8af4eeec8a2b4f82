/* shard_check.h: what must hold of a shard, of the model and of Redis at any
 * time, or when the shard is at rest. */
#ifndef TIDE_TESTS_SHARD_CHECK_H
#define TIDE_TESTS_SHARD_CHECK_H

#include "shard_model.h"

/* ---- checks ------------------------------------------------------------------------ */

static uint64_t total_in_stages(void)
{
	uint64_t n = 0;

	for (int i = 0; i < SHARD_STAGES; i++)
		n += shard_count(w.shard, (enum entry_state)i);
	return n;
}

/* What was refused while somebody held it, and comes back, may be refused again,
 * and nobody is told. */
static void check_total(uint64_t expected)
{
	uint64_t total = total_in_stages(), refused = 0;

	for (size_t i = 0; i < w.count; i++)
		refused += w.things[i].was_refused && (w.things[i].fate == FATE_WAITING ||
						       w.things[i].fate == FATE_BURIED);
	if (total > expected || total < expected - refused)
		fail_msg("%llu messages, %llu were expected", (unsigned long long)total,
			 (unsigned long long)expected);
}

static void sight(const struct entry *e)
{
	if (thing_of(e->id)->sightings++ == 0)
		return;
	dump(e->id);
	fail_msg("%llx is in memory twice", (unsigned long long)e->id);
}

/* Call for each place that is parked. */
static void each_parked(void (*call)(struct place place))
{
	const struct order *o = w.shard->order;
	const struct group *g, *next;
	const struct entry *e;

	if (!o)
		return;
	for (unsigned i = 0; i < o->load_count && !o->is_load_void; i++)
		call(o->loads[i].place);
	for (g = o->groups; g; g = next) {
		next = g->hh.next;
		for (e = window_first(&g->parked); e; e = window_next(&g->parked, e))
			call(window_place(e));
		for (size_t i = 0; i < g->ids.count; i++)
			call(g->ids.places[i]);
	}
}

static void sight_place(struct place place)
{
	sight(&(struct entry){ .id = place.id });
}

static unsigned slots_in_use, slots_waiting;

/* Slots are those of what is held, and of what waits for its next attempt. */
static void check_slots(void)
{
	const struct order *o = w.shard->order;
	const struct group *g, *next;

	slots_in_use = slots_waiting = 0;
	if (!o)
		return;
	for (g = o->groups; g; g = next) {
		next = g->hh.next;
		slots_in_use += g->slots;
		slots_waiting += g->waiting;
	}
	assert_int_equal(slots_in_use - slots_waiting, w.shard->unacked);
}

static void check_unique(void)
{
	const struct shard *sh = w.shard;
	const struct entry *e;

	for (size_t i = 0; i < w.count; i++)
		w.things[i].sightings = 0;
	each_parked(sight_place);
	TAILQ_FOREACH (e, &sh->young, link)
		sight(e);
	TAILQ_FOREACH (e, &sh->moving, link)
		sight(e);
	for (e = window_first(&sh->held); e; e = window_next(&sh->held, e))
		sight(e);
	for (int i = 0; i < SHARD_STAGES; i++) {
		const struct stage *st = &sh->stages[i];

		for (e = window_first(&st->window); e; e = window_next(&st->window, e))
			sight(e);
		TAILQ_FOREACH (e, &st->outside, link)
			sight(e);
	}
}

static void must_be_before(const struct stage *st, double score, const struct entry *e)
{
	if (place_is_before((struct place){ score, e->id }, st->edge))
		return;
	dump(e->id);
	print_message("after step %u\n", w.last_step);
	fail_msg("%llx is in memory (state %d, home %d, flags %x) and behind the edge",
		 (unsigned long long)e->id, e->state, e->home, e->flags);
}

static void check_place(struct place place)
{
	must_be_before(&w.shard->stages[ENTRY_READY], place.score,
		       &(struct entry){ .id = place.id });
}

/* What a refill reads must be nowhere in memory. */
static void check_edges(void)
{
	const struct stage *ready = &w.shard->stages[ENTRY_READY];
	const struct entry *e;

	for (int i = 0; i < SHARD_STAGES; i++) {
		const struct stage *st = &w.shard->stages[i];

		if (st->beyond && (e = window_last(&st->window)) != NULL)
			must_be_before(st, window_place(e).score, e);
	}
	TAILQ_FOREACH (e, &w.shard->moving, link)
		if (e->home < SHARD_STAGES && w.shard->stages[e->home].beyond)
			must_be_before(&w.shard->stages[e->home], e->stored_score, e);
	if (!ready->beyond)
		return;
	each_parked(check_place);
	TAILQ_FOREACH (e, &w.shard->young, link)
		must_be_before(ready, e->rank, e);
}

static void check_counts(void)
{
	uint64_t buried = count_fate(FATE_BURIED);

	check_unique();
	check_edges();
	check_slots();
	check_total(count_fate(FATE_WAITING) + buried);
	assert_int_equal(shard_count(w.shard, ENTRY_UNACKED), count_fate(FATE_HELD));
	if (w.kicks == 0 && !w.may_refuse)
		assert_int_equal(shard_count(w.shard, ENTRY_BURIED),
				 buried - w.kick_credit);
	for (int i = 0; i < SHARD_STAGES; i++) {
		const struct stage *st = &w.shard->stages[i];
		const struct entry *e;
		uint64_t listed = 0, unwritten = 0;

		TAILQ_FOREACH (e, &st->outside, link) {
			listed++;
			unwritten += e->home != st->set || (e->flags & OWED_WRITE);
		}
		assert_int_equal(unwritten, st->outside_unwritten);
		assert_true(listed <= st->beyond);
	}
}

static bool is_settled(void)
{
	if (!journal_is_idle(w.env.journal) || w.shard->is_held_back)
		return false;
	for (int i = 0; i < SHARD_STAGES; i++)
		if (w.shard->stages[i].is_refilling)
			return false;
	if (w.shard->order && w.shard->order->load_count)
		return false;
	return !w.shard->take.is_taking && TAILQ_EMPTY(&w.shard->take.asks);
}

static void settle_all(void)
{
	uint64_t late = patience_end_ns();

	uv_timer_start(&w.h.waker, harness_wake, 1, 1);
	while (!is_settled() && uv_hrtime() < late) {
		pass_time(1);
		journal_flush(w.env.journal);
		uv_run(&w.h.loop, UV_RUN_ONCE);
	}
	uv_timer_stop(&w.h.waker);
	if (!is_settled())
		fail_msg("the shard does not come to rest");
}

static void show_odd(const char *where, const struct stage *st, const struct entry *e)
{
	struct place place = { e->stored_score, e->id };

	if (e->home == st->set && !place_is_before(place, st->edge))
		print_message("%llx is %s, state %d, flags %x, by %g\n",
			      (unsigned long long)e->id, where, e->state, e->flags,
			      place.score);
}

/* Messages that Redis has behind the edge of a stage, though they are here. */
static void dump_shadows(const struct stage *st)
{
	const struct shard *sh = w.shard;
	const struct entry *e;

	dump(0);
	TAILQ_FOREACH (e, &sh->young, link)
		show_odd("young", st, e);
	TAILQ_FOREACH (e, &sh->moving, link)
		show_odd("moving", st, e);
	for (e = window_first(&sh->held); e; e = window_next(&sh->held, e))
		show_odd("held", st, e);
	for (int i = 0; i < SHARD_STAGES; i++) {
		const struct window *window = &sh->stages[i].window;

		for (e = window_first(window); e; e = window_next(window, e))
			show_odd("in a window", st, e);
	}
}

static const char *const set_names[] = { "ready", "delayed", "buried", "unack" };

/* Everything in a set: each thing is sighted; the place in the order is
 * compared with the stage's edge. */
static void check_set(int set, bool is_strict)
{
	redisReply *r =
		ask(&w.h, "ZRANGE tide:{//jobs#0}:%s 0 -1 WITHSCORES", set_names[set]);
	const struct stage *st = NULL;
	uint64_t before = 0, behind = 0, retries = 0;

	for (int i = 0; i < SHARD_STAGES; i++)
		if ((int)w.shard->stages[i].set == set)
			st = &w.shard->stages[i];
	for (size_t i = 0; i + 1 < r->elements; i += 2) {
		struct place place = { strtod(r->element[i + 1]->str, NULL),
				       strtoull(r->element[i]->str, NULL, 16) };
		struct thing *t = thing_of(place.id);

		t->sightings++;
		retries += t->was_tried && t->fate != FATE_MOVING;
		if (st && st->beyond && !place_is_before(place, st->edge))
			behind++;
		else
			before++;
		if (t->fate == FATE_GONE && is_strict && !t->was_refused)
			fail_msg("%llx is gone, but in %s", (unsigned long long)place.id,
				 set_names[set]);
		if (!is_strict || w.may_refuse)
			continue;
		if (t->fate == FATE_BURIED && w.kick_credit == 0)
			assert_int_equal(set, STORE_BURIED);
		if (set == STORE_READY && t->fate != FATE_MOVING)
			assert_true(place.score == t->rank);
		if (set == STORE_DELAYED && t->fate != FATE_MOVING)
			assert_true(t->was_delayed && place.score == (double)t->due_ms);
	}
	if (st && is_strict && !w.may_refuse) {
		if (before != st->indexed || behind != st->beyond)
			dump_shadows(st);
		if (set == STORE_DELAYED && w.inflight && retries != slots_waiting)
			for (size_t i = 0; i + 1 < r->elements; i += 2)
				dump(strtoull(r->element[i]->str, NULL, 16));
		if (set == STORE_DELAYED && w.inflight)
			assert_int_equal(retries, slots_waiting);
		assert_int_equal(before, st->indexed);
		assert_int_equal(behind, st->beyond);
	}
	freeReplyObject(r);
}

/* When nothing is under way, Redis has what the model has. */
static void check_redis(bool is_strict)
{
	check_slots();
	for (size_t i = 0; i < w.count; i++)
		w.things[i].sightings = 0;
	for (int set = 0; set < STORE_SET_COUNT; set++)
		check_set(set, is_strict);
	for (size_t i = 0; i < w.count; i++) {
		const struct thing *t = &w.things[i];

		if (t->sightings > 1)
			fail_msg("%zx is in two sets", i);
		if (t->is_confirmed && t->fate != FATE_GONE && t->sightings == 0)
			fail_msg("%zx was confirmed and is not in Redis (fate %d)", i,
				 t->fate);
		if (t->is_forgotten && t->sightings)
			fail_msg("%zx was acknowledged and is in Redis", i);
		if (is_strict && !t->was_refused && t->fate != FATE_GONE && !t->sightings)
			fail_msg("%zx is not in Redis (fate %d)", i, t->fate);
	}
}

#endif
