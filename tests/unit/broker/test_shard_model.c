/* Random operations on a shard over a real embedded Redis, compared with a
 * simple model: what is delivered, in which order, the counts, and what Redis
 * has. TIDE_TEST_SEED repeats a run, TIDE_TEST_ROUNDS makes more of them. */
#include "../store/harness.h"

#include <math.h>

#include "base/mem.h"
#include "broker/journal.h"
#include "broker/shard.h"

#define MESSAGES_MAX 20000
#define BASE_ID UINT64_C(0x0100000000000000)

enum fate {
	FATE_WAITING, /* ready, or delayed until `due_ms` */
	FATE_HELD,
	FATE_MOVING,
	FATE_BURIED,
	FATE_GONE,
};

struct thing {
	enum fate fate;
	double rank;
	int64_t due_ms;     /* of the last delay */
	bool was_delayed;   /* when it becomes ready is the shard's business */
	bool was_refused;   /* Redis did not take it: it may be nowhere */
	bool is_confirmed;  /* Redis has it */
	bool is_forgotten;  /* Redis was told to remove it, and has */
	unsigned sightings; /* in the dumps of Redis's sets */
	struct entry *entry;
};

struct call {
	struct waiter waiter;
	struct world *world;
	size_t from, to; /* the things that it is about */
	bool is_publish;
};

struct world {
	struct harness h;
	struct shard_env env;
	struct heap timers;
	struct shard *shard;
	redisContext *redis;
	struct thing things[MESSAGES_MAX];
	size_t count;
	uint64_t random;
	unsigned rank_mode;
	uint64_t kick_credit; /* buried ones that a kick has made ready, not yet seen */
	unsigned kicks;       /* under way */
	bool is_crashing;
	bool may_refuse;
	bool is_ebb;   /* nothing is published for a while */
	bool is_ready; /* on_ready was called since shard_next gave nothing */
	uint64_t delivered, crashes, purges, refusals;
};

static struct world w;

static uint64_t random_next(void)
{
	w.random ^= w.random << 13;
	w.random ^= w.random >> 7;
	w.random ^= w.random << 17;
	return w.random >> 11;
}

static unsigned pick(unsigned n)
{
	return (unsigned)(random_next() % n);
}

static struct thing *thing_of(uint64_t id)
{
	if (id < BASE_ID || id - BASE_ID >= w.count)
		fail_msg("an id that was never published: %llx", (unsigned long long)id);
	return &w.things[id - BASE_ID];
}

static uint64_t id_of(const struct thing *t)
{
	return BASE_ID + (uint64_t)(t - w.things);
}

static struct thing *any_with(enum fate fate)
{
	size_t start = w.count ? pick((unsigned)w.count) : 0;

	for (size_t i = 0; i < w.count; i++) {
		struct thing *t = &w.things[(start + i) % w.count];

		if (t->fate == fate)
			return t;
	}
	return NULL;
}

static uint64_t count_fate(enum fate fate)
{
	uint64_t n = 0;

	for (size_t i = 0; i < w.count; i++)
		n += w.things[i].fate == fate;
	return n;
}

/* ---- what the shard tells ------------------------------------------------------ */

static void on_ready(struct shard *sh)
{
	w.is_ready = true;
}

static void settle(struct entry *e, unsigned how)
{
	struct thing *t = thing_of(e->id);

	assert_int_equal(t->fate, FATE_HELD);
	assert_ptr_equal(t->entry, e);
	t->fate = FATE_WAITING;
	t->entry = NULL;
	switch (how) {
	case 0:
		t->was_delayed = false;
		shard_return(e, 0);
		break;
	case 1:
		t->due_ms = w.env.now_ms + 1 + pick(3000);
		t->was_delayed = true;
		shard_count_failure(e, "nack");
		shard_return(e, t->due_ms);
		break;
	case 2:
		t->fate = FATE_BURIED;
		shard_count_failure(e, "timeout");
		shard_bury(e);
		break;
	default:
		t->fate = FATE_MOVING;
		t->entry = e;
		shard_set_moving(e);
	}
}

static void on_timeout(struct shard *sh, struct entry *e)
{
	settle(e, pick(4));
}

static const struct shard_ops ops = { on_ready, on_timeout };

static void on_call(struct waiter *waiter)
{
	struct call *c = (struct call *)((char *)waiter - offsetof(struct call, waiter));

	if (waiter->status < 0 && !w.may_refuse)
		fail_msg("refused: %s", waiter->text ? waiter->text : "?");
	for (size_t i = c->from; i < c->to && !w.is_crashing; i++) {
		struct thing *t = &w.things[i];

		if (!c->is_publish) {
			t->is_forgotten = waiter->status == TIDE_OK;
		} else if (waiter->status == TIDE_OK) {
			t->is_confirmed = t->fate != FATE_GONE;
		} else {
			w.refusals++;
			t->was_refused = true;
			if (t->fate == FATE_WAITING || t->fate == FATE_BURIED)
				t->fate = FATE_GONE;
		}
	}
	mem_free(c);
}

static struct call *call_create(size_t from, size_t to, bool is_publish)
{
	struct call *c = mem_zalloc(sizeof(*c));

	*c = (struct call){ .world = &w, .from = from, .to = to };
	c->is_publish = is_publish;
	waiter_init(&c->waiter, on_call);
	return c;
}

/* ---- operations ------------------------------------------------------------------ */

static double make_rank(void)
{
	switch (w.rank_mode) {
	case 0:
		return 0;
	case 1:
		return -(double)pick(4);
	case 2:
		return (double)random_next() / 1e9 - 1e3;
	default:
		return pick(20) ? 5 : pick(10);
	}
}

static void publish(void)
{
	static const char payload[2000];
	struct thing *t = &w.things[w.count];
	struct call *c;
	struct msg *m;

	if (w.count == MESSAGES_MAX)
		return;
	w.count++;
	*t = (struct thing){ .rank = make_rank(), .fate = FATE_WAITING };
	m = make_msg(id_of(t), "k", payload, pick(8) ? pick(100) : pick(2000));
	if (pick(4) == 0) {
		t->due_ms = m->due_unix_ms = w.env.now_ms + 1 + pick(5000);
		t->was_delayed = true;
	}
	c = call_create(w.count - 1, w.count, true);
	shard_publish(w.shard, m, t->rank, &c->waiter);
	waiter_done(&c->waiter, TIDE_OK, NULL);
	msg_unref(m);
}

/* What the shard thinks of a message, for the eye of whom a failure puzzles. */
static void dump(uint64_t id)
{
	static const char *const names[] = { "ready", "delayed", "unack", "buried" };

	for (int i = 0; i < 4; i++) {
		redisReply *r = ask(w.redis, "ZSCORE tide:{//jobs#0}:%s %016llx",
				    names[i], (unsigned long long)id);

		if (r->str)
			print_message("%llx is in %s by %s\n", (unsigned long long)id,
				      names[i], r->str);
		freeReplyObject(r);
	}
	for (int i = 0; i < SHARD_STAGES; i++) {
		const struct stage *st = &w.shard->stages[i];
		const struct entry *e;

		print_message("stage %d: window %zu, beyond %llu, edge %g %llx, indexed "
			      "%llu%s%s\n",
			      i, st->window.count, (unsigned long long)st->beyond,
			      st->edge.score, (unsigned long long)st->edge.id,
			      (unsigned long long)st->indexed,
			      st->is_refilling ? ", refilling" : "",
			      st->is_void ? ", void" : "");
		for (e = window_first(&st->window); e; e = window_next(&st->window, e))
			if (e->id == id)
				print_message("%llx is in the window, home %d, flags "
					      "%x\n",
					      (unsigned long long)id, e->home, e->flags);
		TAILQ_FOREACH (e, &st->outside, link)
			if (e->id == id)
				print_message("%llx is outside, home %d, flags %x\n",
					      (unsigned long long)id, e->home, e->flags);
	}
}

static void fail_order(struct place place, const struct thing *o)
{
	dump(place.id);
	dump(id_of(o));
	fail_msg("%llx (rank %g) was delivered before %llx (rank %g)",
		 (unsigned long long)place.id, place.score, (unsigned long long)id_of(o),
		 o->rank);
}

/* Nothing that is ready for certain may come before it. */
static void check_order(const struct thing *t)
{
	struct place place = { t->rank, id_of(t) };

	for (size_t i = 0; i < w.count; i++) {
		const struct thing *o = &w.things[i];

		if (o->fate == FATE_WAITING && !o->was_delayed && o != t &&
		    place_is_before((struct place){ o->rank, id_of(o) }, place))
			fail_order(place, o);
	}
}

static bool deliver(void)
{
	struct entry *e = shard_next(w.shard);
	struct thing *t;

	if (!e) {
		w.is_ready = false;
		return false;
	}
	t = thing_of(e->id);
	if (t->fate == FATE_BURIED && (w.kick_credit > 0 || w.may_refuse))
		w.kick_credit -= w.kick_credit > 0;
	else if (t->fate != FATE_WAITING)
		fail_msg("%llx is delivered, but its fate is %d",
			 (unsigned long long)e->id, t->fate);
	if (t->was_delayed && t->fate == FATE_WAITING && t->due_ms > w.env.now_ms)
		fail_msg("%llx is delivered %lld ms early", (unsigned long long)e->id,
			 (long long)(t->due_ms - w.env.now_ms));
	assert_true(e->rank == t->rank);
	/* What is refused may vanish, and hold up others until it is tried again. */
	if (t->fate == FATE_WAITING && !t->was_delayed && !w.may_refuse)
		check_order(t);
	t->fate = FATE_HELD;
	t->entry = e;
	shard_hold(e, w.env.now_ms + 1 + pick(10000));
	w.delivered++;
	return true;
}

static void ack(struct thing *t)
{
	struct entry *e = t->entry;
	struct call *c;

	t->fate = FATE_GONE;
	t->entry = NULL;
	t->is_confirmed = false;
	c = call_create((size_t)(t - w.things), (size_t)(t - w.things) + 1, false);
	shard_remove(e, &c->waiter);
	waiter_done(&c->waiter, TIDE_OK, NULL);
}

static bool is_quiet(void)
{
	return !w.shard->is_held_back && !w.shard->kick_waiter;
}

static void on_kicked(struct waiter *waiter)
{
	w.kicks--;
	mem_free(waiter);
}

static void kick(uint64_t n)
{
	struct waiter *waiter;
	uint64_t kicked = 0, buried = count_fate(FATE_BURIED) - w.kick_credit;

	if (!is_quiet())
		return;
	waiter = mem_zalloc(sizeof(*waiter));
	waiter_init(waiter, on_kicked);
	w.kicks++;
	assert_int_equal(shard_kick(w.shard, n, waiter, &kicked), TIDE_OK);
	if (!w.may_refuse)
		assert_int_equal(kicked, n < buried ? n : buried);
	w.kick_credit += kicked;
	waiter_done(waiter, TIDE_OK, NULL);
}

static void purge(void)
{
	struct call *c;
	uint64_t expected = count_fate(FATE_WAITING) + count_fate(FATE_BURIED);

	if (!is_quiet())
		return;
	w.purges++;
	c = call_create(0, 0, false);
	for (size_t i = 0; i < w.count; i++) {
		struct thing *t = &w.things[i];

		if (t->fate == FATE_WAITING || t->fate == FATE_BURIED) {
			t->fate = FATE_GONE;
			t->is_confirmed = false;
		}
	}
	w.kick_credit = 0;
	if (w.may_refuse)
		expected = shard_purge(w.shard, &c->waiter);
	else
		assert_int_equal(shard_purge(w.shard, &c->waiter), expected);
	waiter_done(&c->waiter, TIDE_OK, NULL);
}

static void end_move(struct thing *t)
{
	struct entry *e = t->entry;

	t->entry = NULL;
	if (pick(2)) {
		t->fate = FATE_BURIED;
		shard_bury(e);
	} else {
		t->fate = FATE_GONE;
		t->is_confirmed = false;
		shard_remove(e, NULL);
	}
}

static void pass_time(int64_t ms)
{
	w.env.now_ms += ms;
	while (heap_min(&w.timers) && heap_min(&w.timers)->key <= w.env.now_ms)
		shard_tick(w.shard);
}

static void turn(void)
{
	journal_flush(w.env.journal);
	uv_run(&w.h.loop, UV_RUN_NOWAIT);
}

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

static void check_unique(void)
{
	const struct shard *sh = w.shard;
	const struct entry *e;

	for (size_t i = 0; i < w.count; i++)
		w.things[i].sightings = 0;
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

static void check_counts(void)
{
	uint64_t buried = count_fate(FATE_BURIED);

	check_unique();
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
			unwritten += e->home != st->set || (e->flags & ENTRY_DIRTY);
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
	return true;
}

static void settle_all(void)
{
	uint64_t late = uv_hrtime() + DEADLINE_MS * UINT64_C(1000000);

	uv_timer_start(&w.h.waker, harness_wake, 1, 1);
	while (!is_settled() && uv_hrtime() < late) {
		w.env.now_ms++;
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

static const char *const set_names[] = { "ready", "delayed", "unack", "buried" };

/* Everything in a set: each thing is sighted; the place in the order is
 * compared with the stage's edge. */
static void check_set(int set, bool is_strict)
{
	redisReply *r =
		ask(w.redis, "ZRANGE tide:{//jobs#0}:%s 0 -1 WITHSCORES", set_names[set]);
	const struct stage *st = NULL;
	uint64_t before = 0, behind = 0;

	for (int i = 0; i < SHARD_STAGES; i++)
		if ((int)w.shard->stages[i].set == set)
			st = &w.shard->stages[i];
	for (size_t i = 0; i + 1 < r->elements; i += 2) {
		struct place place = { strtod(r->element[i + 1]->str, NULL),
				       strtoull(r->element[i]->str, NULL, 16) };
		struct thing *t = thing_of(place.id);

		t->sightings++;
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
		if (set == STORE_READY)
			assert_true(place.score == t->rank);
		if (set == STORE_DELAYED && t->fate != FATE_MOVING)
			assert_true(t->was_delayed && place.score == (double)t->due_ms);
	}
	if (st && is_strict && !w.may_refuse) {
		if (before != st->indexed || behind != st->beyond)
			dump_shadows(st);
		assert_int_equal(before, st->indexed);
		assert_int_equal(behind, st->beyond);
	}
	freeReplyObject(r);
}

/* When nothing is under way, Redis has what the model has. */
static void check_redis(bool is_strict)
{
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

/* ---- a crash, and the recovery ------------------------------------------------------
 */

static void on_recovered(struct waiter *waiter)
{
	assert_int_equal(waiter->status, TIDE_OK);
	w.is_crashing = false;
}

/* What Redis has is what there is from now on. */
static void adopt_redis(void)
{
	for (size_t i = 0; i < w.count; i++) {
		struct thing *t = &w.things[i];

		t->entry = NULL;
		if (!t->sightings) {
			t->fate = FATE_GONE;
			continue;
		}
		t->is_confirmed = true;
		t->fate = FATE_WAITING;
		t->was_delayed = false;
		t->was_refused = false;
	}
	for (int set = STORE_DELAYED; set < STORE_SET_COUNT; set++) {
		redisReply *r = ask(w.redis, "ZRANGE tide:{//jobs#0}:%s 0 -1 WITHSCORES",
				    set_names[set]);

		for (size_t i = 0; i + 1 < r->elements; i += 2) {
			struct thing *t =
				thing_of(strtoull(r->element[i]->str, NULL, 16));

			if (set == STORE_BURIED)
				t->fate = FATE_BURIED;
			t->was_delayed = set == STORE_DELAYED;
			t->due_ms = (int64_t)strtod(r->element[i + 1]->str, NULL);
		}
		freeReplyObject(r);
	}
}

static struct shard *make_shard(void)
{
	return shard_create(&w.env, &ops, NULL, 0,
			    store_shard_create(w.h.store, SLICE("/"), SLICE("jobs"), 0));
}

static void crash(void)
{
	struct waiter waiter;

	w.crashes++;
	w.is_crashing = true;
	struct shard *old = shard_ref(w.shard);
	shard_close(old);
	WAIT(&w.h, journal_is_idle(w.env.journal) && old->refs == 1);
	check_redis(false);
	adopt_redis();
	shard_unref(old);
	w.kick_credit = 0;
	w.shard = make_shard();
	waiter_init(&waiter, on_recovered);
	shard_recover(w.shard, &waiter);
	waiter_done(&waiter, TIDE_OK, NULL);
	WAIT(&w.h, !w.is_crashing);
}

/* ---- trouble with Redis --------------------------------------------------------------
 */

static void forget(redisReply *r)
{
	assert_int_not_equal(r->type, REDIS_REPLY_ERROR);
	freeReplyObject(r);
}

static void cut_connection(void)
{
	forget(ask(w.redis, "CLIENT KILL TYPE normal SKIPME yes"));
}

static void set_memory(const char *max)
{
	forget(ask(w.redis, "CONFIG SET maxmemory %s", max));
}

/* ---- the run
 * --------------------------------------------------------------------------- */

static void step(bool has_trouble)
{
	struct thing *t;

	if (pick(300) == 0)
		w.is_ebb = pick(2);
	switch (pick(40)) {
	case 0 ... 8:
		for (unsigned n = pick(3) ? 1 : pick(60); n > 0 && !w.is_ebb; n--)
			publish();
		break;
	case 9 ... 15:
		for (unsigned n = pick(30); n > 0 && deliver(); n--)
			;
		break;
	case 16 ... 21:
		for (unsigned n = pick(30); n > 0 && (t = any_with(FATE_HELD)); n--)
			ack(t);
		break;
	case 22 ... 24:
		for (unsigned n = pick(5); n > 0 && (t = any_with(FATE_HELD)); n--)
			settle(t->entry, pick(4));
		break;
	case 25:
		if ((t = any_with(FATE_HELD)))
			shard_touch(t->entry, w.env.now_ms + 1 + pick(3000));
		break;
	case 26:
		if ((t = any_with(FATE_MOVING)))
			end_move(t);
		break;
	case 27:
		if (pick(3) == 0)
			kick(1 + pick(40));
		break;
	case 28:
		if (pick(60) == 0)
			purge();
		break;
	case 29 ... 31:
		pass_time(pick(400));
		break;
	case 32:
		if (pick(20) == 0) {
			if (w.may_refuse)
				set_memory("0");
			settle_all();
			check_redis(true);
		}
		break;
	case 33:
		if (pick(200) == 0)
			crash();
		if (has_trouble && pick(20) == 0)
			cut_connection();
		if (w.may_refuse && pick(4) == 0)
			set_memory(pick(3) ? "0" : "1");
		break;
	default:
		turn();
	}
	if (!w.is_crashing)
		check_counts();
}

static void drain(void)
{
	struct thing *t;
	uint64_t late = uv_hrtime() + DEADLINE_MS * UINT64_C(1000000);
	uint64_t left = 1;

	uv_timer_start(&w.h.waker, harness_wake, 1, 1);
	while (left > 0 && uv_hrtime() < late) {
		while ((t = any_with(FATE_MOVING)))
			end_move(t);
		if (shard_count(w.shard, ENTRY_BURIED))
			kick(UINT64_MAX);
		/* As a queue does it: asks when it is told to, and not again. */
		while (w.is_ready && deliver())
			;
		while ((t = any_with(FATE_HELD)))
			ack(t);
		pass_time(7);
		journal_flush(w.env.journal);
		uv_run(&w.h.loop, UV_RUN_ONCE);
		left = total_in_stages() + w.shard->unacked;
		check_counts();
	}
	uv_timer_stop(&w.h.waker);
	if (left) {
		dump(0);
		fail_msg("%llu messages are never delivered", (unsigned long long)left);
	}
}

static void begin(uint64_t seed)
{
	static const unsigned windows[] = { 2, 16, 16, 50 };

	memset(&w, 0, sizeof(w));
	w.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	for (int i = 0; i < 8; i++)
		random_next();
	harness_init(&w.h);
	harness_open_up(&w.h);
	w.redis = harness_redis(&w.h);
	forget(ask(w.redis, "CONFIG SET appendfsync no"));
	w.rank_mode = (unsigned)(seed % 4);
	w.env.store = w.h.store;
	w.env.timers = &w.timers;
	w.env.window_messages = windows[pick(4)];
	w.env.window_bytes = pick(2) ? 1 << 20 : 4096;
	w.env.memory_soft_bytes = pick(3) ? 1 << 30 : 30000;
	w.env.now_ms = 1790000000000;
	heap_init(&w.timers);
	pool_init(&w.env.entries, sizeof(struct entry), 64);
	pool_init(&w.env.lanes, sizeof(struct lane), 64);
	w.env.journal = journal_create(&w.env);
	w.shard = make_shard();
}

static void end(void)
{
	shard_close(w.shard);
	redisFree(w.redis);
	harness_close(&w.h);
	journal_destroy(w.env.journal);
	pool_deinit(&w.env.entries);
	pool_deinit(&w.env.lanes);
	heap_deinit(&w.timers);
	harness_deinit(&w.h);
}

static unsigned long number_from_env(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoul(text, NULL, 10) : otherwise;
}

static void run(uint64_t seed, bool has_trouble, bool may_refuse)
{
	unsigned long steps = number_from_env("TIDE_TEST_STEPS", 6000);

	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	begin(seed);
	w.may_refuse = may_refuse;
	for (unsigned long i = 0; i < steps; i++)
		step(has_trouble);
	if (may_refuse)
		set_memory("0");
	settle_all();
	check_redis(!may_refuse);
	w.is_ready = true;
	drain();
	settle_all();
	if (!may_refuse)
		assert_int_equal(ask_int(w.redis, "DBSIZE"), 0);
	assert_int_equal(w.env.memory_bytes, 0);
	assert_int_equal(journal_stats(w.env.journal)->unstored_bytes, 0);
	printf("%zu published, %llu deliveries, %llu refused, %llu crashes, %llu "
	       "purges\n",
	       w.count, (unsigned long long)w.delivered, (unsigned long long)w.refusals,
	       (unsigned long long)w.crashes, (unsigned long long)w.purges);
	end();
}

static void run_seeds(unsigned kind)
{
	unsigned long rounds = number_from_env("TIDE_TEST_ROUNDS", 4);
	unsigned long seed = number_from_env("TIDE_TEST_SEED", 0);

	if (seed) {
		run(seed, kind == 1, kind == 2);
		return;
	}
	for (unsigned long i = 0; i < rounds; i++)
		run(uv_hrtime() / 1000 % 1000000 * 4 + i % 4, kind == 1, kind == 2);
}

static void a_shard_does_what_the_model_does(void **state)
{
	run_seeds(0);
}

static void so_it_does_when_its_connection_is_cut(void **state)
{
	run_seeds(1);
}

static void what_redis_refuses_is_refused_and_nothing_else_is_lost(void **state)
{
	run_seeds(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shard_does_what_the_model_does),
		cmocka_unit_test(so_it_does_when_its_connection_is_cut),
		cmocka_unit_test(what_redis_refuses_is_refused_and_nothing_else_is_lost),
	};

	signal(SIGPIPE, SIG_IGN);
	log_configure(LOG_WARN, false);
	cmocka_set_test_filter(getenv("TIDE_TEST_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
