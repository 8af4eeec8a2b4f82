/* shard_model.h: a shard over a real embedded Redis, and a simple model of what
 * it should do: what is delivered, in which order, the counts. */
#ifndef TIDE_TESTS_SHARD_MODEL_H
#define TIDE_TESTS_SHARD_MODEL_H

#include "store/harness.h"

#include <math.h>

#include "base/mem.h"
#include "shard/journal.h"
#include "shard/shard.h"

#define MESSAGES_MAX 20000
#define GROUPS 30
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
	uint8_t priority;
	int64_t due_ms;     /* of the last delay */
	int64_t expires_ms; /* 0: never */
	unsigned group;
	bool was_tried;     /* it has been delivered */
	bool is_retry;      /* delayed after a delivery */
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
	struct thing things[MESSAGES_MAX];
	size_t count;
	uint64_t random;
	unsigned rank_mode;
	unsigned inflight;     /* of a group; 0: groups do not matter */
	uint64_t kick_credit;  /* buried ones that a kick has made ready, not yet seen */
	uint64_t early_credit; /* likewise delayed ones */
	unsigned kicks;        /* under way */
	bool is_crashing;
	bool may_refuse;
	bool is_ebb;   /* nothing is published for a while */
	bool is_ready; /* on_ready was called since shard_next gave nothing */
	unsigned last_step;
	uint64_t delivered, expired, crashes, purges, refusals, asked, found, looked;
};

static struct world w;

static uint64_t next_random(void)
{
	w.random ^= w.random << 13;
	w.random ^= w.random >> 7;
	w.random ^= w.random << 17;
	return w.random >> 11;
}

static unsigned pick(unsigned n)
{
	return (unsigned)(next_random() % n);
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

static double make_rank(void);

/* It gets another priority, and another rank by that. */
static void revise(struct entry *e, struct thing *t)
{
	struct msg like = *e->msg;
	struct msg *m;

	like.priority = (uint8_t)pick(256);
	m = msg_create(&like);
	assert_non_null(m);
	t->priority = m->priority;
	t->rank = make_rank();
	shard_revise(e, m, t->rank);
	msg_unref(m);
}

static void settle(struct entry *e, unsigned how)
{
	struct thing *t = thing_of(e->id);

	assert_int_equal(t->fate, FATE_HELD);
	assert_ptr_equal(t->entry, e);
	if (pick(3) == 0)
		revise(e, t);
	t->fate = FATE_WAITING;
	t->entry = NULL;
	switch (how) {
	case 0:
		t->was_delayed = t->is_retry = false;
		shard_return(e, 0);
		break;
	case 1:
		t->due_ms = w.env.now_ms + 1 + pick(3000);
		t->was_delayed = t->is_retry = true;
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

static void ack(struct thing *t);

static bool on_expired(struct shard *sh, struct entry *e)
{
	struct thing *t = thing_of(e->id);

	if (t->fate == FATE_BURIED && (w.kick_credit > 0 || w.may_refuse))
		w.kick_credit -= w.kick_credit > 0;
	else if (t->fate != FATE_WAITING)
		fail_msg("%llx expires, but its fate is %d", (unsigned long long)e->id,
			 t->fate);
	assert_true(t->expires_ms > 0 && t->expires_ms <= w.env.now_ms);
	w.expired++;
	t->is_retry = false;
	t->entry = e;
	if (pick(2)) {
		ack(t);
	} else if (pick(2)) {
		t->fate = FATE_BURIED;
		t->entry = NULL;
		shard_bury(e);
	} else {
		t->fate = FATE_MOVING;
		shard_set_moving(e);
	}
	return pick(8) > 0;
}

static const struct shard_ops ops = { on_ready, NULL, on_expired };

/* As a dead letter does whose copy Redis does not take: it is buried in the middle of
 * what the shard does with the answer. */
static void bury_moving(void)
{
	struct thing *t = any_with(FATE_MOVING);
	struct entry *e = t ? t->entry : NULL;

	if (!t)
		return;
	t->fate = FATE_BURIED;
	t->entry = NULL;
	shard_bury(e);
}

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
			bury_moving();
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
		return (double)next_random() / 1e9 - 1e3;
	default:
		return pick(20) ? 5 : pick(10);
	}
}

static void publish(void)
{
	static const char payload[2000];
	struct thing *t = &w.things[w.count];
	char key[16];
	struct call *c;
	struct msg *m;

	if (w.count == MESSAGES_MAX)
		return;
	w.count++;
	*t = (struct thing){ .rank = make_rank(), .fate = FATE_WAITING };
	/* One of them has half of the messages. */
	t->group = pick(2) ? 0 : pick(GROUPS);
	snprintf(key, sizeof(key), "k%u", t->group);
	m = make_msg(id_of(t), key, payload, pick(8) ? pick(100) : pick(2000));
	t->priority = m->priority;
	if (pick(4) == 0) {
		t->due_ms = m->due_unix_ms = w.env.now_ms + 1 + pick(5000);
		t->was_delayed = true;
	}
	if (pick(6) == 0)
		t->expires_ms = m->expires_unix_ms = w.env.now_ms + 1 + pick(8000);
	c = call_create(w.count - 1, w.count, true);
	shard_publish(w.shard, m, t->rank, &c->waiter, false);
	waiter_done(&c->waiter, TIDE_OK, NULL);
	msg_unref(m);
}

/* What the shard thinks of a message, for the eye of whom a failure puzzles. */
static void dump(uint64_t id)
{
	static const char *const names[] = { "ready", "delayed", "unack", "buried" };

	for (int i = 0; i < 4; i++) {
		redisReply *r = ask(&w.h, "ZSCORE tide:{//jobs#0}:%s %016llx", names[i],
				    (unsigned long long)id);

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

		/* Another group may be full, or its messages are being read. */
		if (w.inflight && o->group != t->group)
			continue;
		if (o->fate == FATE_WAITING && !o->was_delayed && o != t &&
		    (!o->expires_ms || o->expires_ms > w.env.now_ms) &&
		    place_is_before((struct place){ o->rank, id_of(o) }, place))
			fail_order(place, o);
	}
}

/* No more than so many of its group are at work, those included that wait for their
 * next attempt. */
static void check_group(const struct thing *t)
{
	unsigned at_work = 0;

	for (size_t i = 0; i < w.count && w.inflight; i++) {
		const struct thing *o = &w.things[i];
		bool is_waiting = o->fate == FATE_WAITING && o->is_retry &&
				  o->due_ms > w.env.now_ms && !o->was_refused;

		if (o != t && o->group == t->group &&
		    (o->fate == FATE_HELD || is_waiting))
			at_work++;
	}
	if (w.inflight && at_work >= w.inflight)
		fail_msg("%llx is delivered though %u of its group are at work",
			 (unsigned long long)id_of(t), at_work);
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
	if (t->was_delayed && t->fate == FATE_WAITING && t->due_ms > w.env.now_ms &&
	    w.early_credit-- == 0)
		fail_msg("%llx is delivered %lld ms early", (unsigned long long)e->id,
			 (long long)(t->due_ms - w.env.now_ms));
	assert_true(e->rank == t->rank);
	assert_int_equal(e->msg->priority, t->priority);
	/* What is refused may vanish, and hold up others until it is tried again. */
	if (t->fate == FATE_WAITING && !t->was_delayed && !w.may_refuse)
		check_order(t);
	check_group(t);
	t->is_retry = false;
	t->entry = e;
	w.delivered++;
	if (pick(10) == 0) {
		ack(t);
		return true;
	}
	t->was_tried = true;
	t->fate = FATE_HELD;
	shard_hold(e, 1 + pick(10000));
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

/* ---- messages by their ids ------------------------------------------------------- */

enum by_id {
	BY_ID_REMOVE,
	BY_ID_HOLD,
	BY_ID_RETURN,
	BY_ID_KICK,
	BY_ID_LEAVE,
	BY_ID_LOOK
};

struct request {
	struct shard_ask ask;
	enum by_id what;
	uint64_t ids[8];
};

/* A thing that nobody holds, in a state in which it may be. */
static void check_state(struct thing *t, enum entry_state state)
{
	if (t->fate == FATE_BURIED && state != ENTRY_BURIED &&
	    (w.kick_credit > 0 || w.may_refuse)) {
		w.kick_credit -= w.kick_credit > 0;
		t->fate = FATE_WAITING;
		t->was_delayed = false;
	}
	if ((t->fate != FATE_BURIED || state != ENTRY_BURIED) &&
	    (t->fate != FATE_WAITING || state == ENTRY_BURIED) && !w.may_refuse)
		fail_msg("%llx is found in state %d, but its fate is %d",
			 (unsigned long long)id_of(t), state, t->fate);
}

static bool use_found(struct thing *t, struct entry *e, enum by_id what,
		      enum entry_state state)
{
	switch (what) {
	case BY_ID_REMOVE:
		t->entry = e;
		ack(t);
		return true;
	case BY_ID_HOLD:
		t->fate = FATE_HELD;
		t->entry = e;
		t->was_tried = true;
		t->is_retry = false;
		shard_hold(e, 1 + pick(10000));
		shard_ledger_found(e);
		return true;
	case BY_ID_RETURN:
		t->fate = FATE_WAITING;
		t->was_delayed = pick(2);
		t->is_retry = t->was_delayed && t->was_tried;
		t->due_ms = t->was_delayed ? w.env.now_ms + 1 + pick(5000) : 0;
		shard_return(e, t->due_ms);
		return true;
	case BY_ID_KICK:
		if (state == ENTRY_READY)
			return false;
		t->fate = FATE_WAITING;
		t->was_delayed = t->is_retry = false;
		shard_forget_failures(e);
		shard_move(e, ENTRY_READY, 0);
		return true;
	default:
		return false;
	}
}

static bool on_found(struct shard_ask *ask, struct entry *e, enum entry_state state)
{
	struct request *r = (struct request *)ask;
	struct thing *t = thing_of(e->id);

	w.found++;
	if (state == ENTRY_MOVING) {
		assert_int_equal(t->fate, FATE_MOVING);
		return false;
	}
	if (state == ENTRY_UNACKED) {
		assert_int_equal(t->fate, FATE_HELD);
		assert_ptr_equal(t->entry, e);
		if (r->what != BY_ID_REMOVE)
			return false;
		ack(t);
		return true;
	}
	check_state(t, state);
	return use_found(t, e, r->what, state);
}

static void on_seen(struct shard_ask *ask, const struct store_row *row,
		    enum entry_state state)
{
	struct thing *t = thing_of(row->id);

	w.looked++;
	/* The answer may be older than what has happened since. */
	if (t->fate == FATE_WAITING && state == ENTRY_DELAYED && t->was_delayed)
		assert_true(row->score > 0);
}

static void on_asked(struct shard_ask *ask, int status, const char *text)
{
	struct request *r = (struct request *)ask;

	for (unsigned i = 0; i < ask->count && status == TIDE_OK && !w.may_refuse; i++) {
		const struct thing *t = thing_of(ask->ids[i]);

		if (t->fate != FATE_GONE) {
			dump(ask->ids[i]);
			fail_msg("%llx is not found, but its fate is %d",
				 (unsigned long long)ask->ids[i], t->fate);
		}
	}
	mem_free(r);
}

static void ask_for(enum by_id what)
{
	struct request *r;

	/* A kick would find fewer than it has counted. */
	if (w.count < 8 || w.kicks > 0)
		return;
	r = mem_zalloc(sizeof(*r));
	r->what = what;
	r->ask = (struct shard_ask){ .shard = w.shard, .ids = r->ids };
	r->ask.on_entry = on_found;
	r->ask.on_end = on_asked;
	if (what == BY_ID_LOOK)
		r->ask.on_row = on_seen;
	for (unsigned n = 1 + pick(8), i = 0; i < n; i++) {
		struct thing *t = pick(4) ? any_with((enum fate)pick(FATE_GONE)) : NULL;
		uint64_t id = t ? id_of(t) : BASE_ID + pick((unsigned)w.count);
		bool has = false;

		for (unsigned k = 0; k < r->ask.count; k++)
			has |= r->ids[k] == id;
		if (!has)
			r->ids[r->ask.count++] = id;
	}
	w.asked += r->ask.count;
	shard_take_ask(&r->ask);
}

static bool is_quiet(void)
{
	return !w.shard->is_held_back && !w.shard->kick;
}

static void on_kicked(struct waiter *waiter)
{
	w.kicks--;
	mem_free(waiter);
}

static void kick(uint64_t n)
{
	struct waiter *waiter;
	uint64_t kicked, buried = count_fate(FATE_BURIED) - w.kick_credit;
	uint64_t delayed = shard_count(w.shard, ENTRY_DELAYED);
	bool is_early = shard_count(w.shard, ENTRY_BURIED) == 0;

	if (!is_quiet() || !TAILQ_EMPTY(&w.shard->take.asks))
		return;
	/* The checks of groups go by when retries are due. */
	if (is_early && (w.inflight || pick(4)))
		return;
	waiter = mem_zalloc(sizeof(*waiter));
	waiter_init(waiter, on_kicked);
	w.kicks++;
	kicked = shard_kick(&w.shard, 1, n, waiter);
	if (is_early)
		assert_int_equal(kicked, n < delayed ? n : delayed);
	else if (!w.may_refuse)
		assert_int_equal(kicked, n < buried ? n : buried);
	*(is_early ? &w.early_credit : &w.kick_credit) += kicked;
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
	shard_expiry_turn(&w.env);
}

static void turn(void)
{
	journal_flush(w.env.journal);
	uv_run(&w.h.loop, UV_RUN_NOWAIT);
}

#endif
