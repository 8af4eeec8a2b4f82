/* Random operations on a shard over a real embedded Redis, compared with a
 * simple model: what is delivered, in which order, the counts, and what Redis
 * has. TIDE_TEST_SEED repeats a run, TIDE_TEST_ROUNDS makes more of them. */
#include "shard_check.h"
#include "full.h"

#include "store/codec.h"

/* ---- a crash, and the recovery ------------------------------------------------------
 */

static void on_recovered(struct waiter *waiter)
{
	assert_int_equal(waiter->status, TIDE_OK);
	w.is_crashing = false;
}

static bool has_tries(const struct thing *t)
{
	char command[80];

	snprintf(command, sizeof(command), "HEXISTS tide:{//jobs#0}:tries %016llx",
		 (unsigned long long)id_of(t));
	return ask_int(&w.h, command) == 1;
}

/* It may have been revised in memory alone. */
static void adopt_body(struct thing *t)
{
	const struct msg known = { .id = id_of(t) };
	redisReply *r = ask(&w.h, "HGET tide:{//jobs#0}:msg %016llx",
			    (unsigned long long)known.id);
	struct error err;
	struct msg *m;

	assert_int_equal(codec_decode((struct slice){ r->str, (size_t)r->len }, &known,
				      &m, &t->rank, &err),
			 TIDE_OK);
	t->priority = m->priority;
	msg_unref(m);
	freeReplyObject(r);
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
		adopt_body(t);
		t->is_confirmed = true;
		t->fate = FATE_WAITING;
		t->was_delayed = t->is_retry = false;
		t->was_refused = false;
		/* An attempt of a moment ago may not have been written. */
		t->was_tried = has_tries(t);
	}
	for (int set = STORE_DELAYED; set < STORE_SET_COUNT; set++) {
		redisReply *r = ask(&w.h, "ZRANGE tide:{//jobs#0}:%s 0 -1 WITHSCORES",
				    set_names[set]);

		for (size_t i = 0; i + 1 < r->elements; i += 2) {
			struct thing *t =
				thing_of(strtoull(r->element[i]->str, NULL, 16));

			double score = strtod(r->element[i + 1]->str, NULL);
			int64_t at_ms = (int64_t)score;
			int from = set;

			if (set == STORE_UNACK)
				from = (int)store_read_taken_from(score, &at_ms);
			if (from == STORE_BURIED)
				t->fate = FATE_BURIED;
			t->was_delayed = from == STORE_DELAYED;
			t->is_retry = t->was_delayed && t->was_tried;
			t->due_ms = at_ms;
		}
		freeReplyObject(r);
	}
}

static struct shard *make_shard(void)
{
	struct shard *sh = shard_create(&w.env, NULL, 0,
					store_shard_create(SLICE("/"), SLICE("jobs"), 0));

	if (w.inflight)
		shard_order_by(sh, &(struct order_spec){ .by = ORDER_KEY,
							 .inflight = w.inflight,
							 .label = "queue 'jobs'" });
	return sh;
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

static void cut_connection(void)
{
	tell(&w.h, "CLIENT KILL TYPE normal SKIPME yes");
}

static void set_memory(const char *max)
{
	tell(&w.h, "CONFIG SET maxmemory %s", max);
}

/* ---- the run
 * --------------------------------------------------------------------------- */

static void step(bool has_trouble)
{
	struct thing *t;

	if (pick(300) == 0)
		w.is_ebb = pick(2);
	w.last_step = pick(44);
	switch (w.last_step) {
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
			shard_step_clock(t->entry->shard, (int64_t)pick(3000) - 1500);
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
	case 40:
	case 41:
		if (pick(2) == 0)
			ask_for((enum by_id)pick(6));
		else if (pick(4) == 0 && TAILQ_EMPTY(&w.shard->take.asks))
			shard_index_drop(w.shard, 1 + pick(40));
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
	uint64_t late = patience_end_ns();
	uint64_t left = UINT64_MAX, before;

	/* Each message may cost a round trip and an fsync: only no progress is late. */
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
		before = left;
		left = total_in_stages() + w.shard->unacked + count_fate(FATE_MOVING);
		if (left < before)
			late = patience_end_ns();
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
		next_random();
	harness_init(&w.h);
	harness_open_up(&w.h);
	tell(&w.h, "CONFIG SET appendfsync no");
	w.rank_mode = (unsigned)(seed % 4);
	w.env.store = w.h.store;
	w.env.ops = &ops;
	w.env.timers = &w.timers;
	w.env.window_messages = windows[pick(4)];
	w.env.window_bytes = pick(2) ? 1 << 20 : 4096;
	w.env.parked_messages = pick(3) ? 1000000 : 40;
	w.inflight = seed % 8 < 4 ? 0 : 1 + pick(3) / 2;
	w.env.memory_soft_bytes = pick(3) ? 1 << 30 : 30000;
	w.env.now_ms = 1790000000000;
	pool_init(&w.env.entries, sizeof(struct entry), 64);
	pool_init(&w.env.lanes, sizeof(struct lane), 64);
	shard_expiry_init(&w.env);
	w.env.may_expire = true;
	w.env.journal = journal_create(&w.env);
	w.shard = make_shard();
}

static void end(void)
{
	shard_close(w.shard);
	harness_close(&w.h);
	journal_destroy(w.env.journal);
	pool_deinit(&w.env.entries);
	pool_deinit(&w.env.lanes);
	shard_expiry_deinit(&w.env);
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
		assert_int_equal(ask_int(&w.h, "DBSIZE"), 0);
	assert_int_equal(w.env.memory_bytes, 0);
	assert_int_equal(w.env.unstored_bytes, 0);
	printf("%zu published, %llu deliveries, %llu expired, %llu refused, %llu "
	       "crashes, "
	       "%llu purges, %llu asked for, %llu found, %llu seen\n",
	       w.count, (unsigned long long)w.delivered, (unsigned long long)w.expired,
	       (unsigned long long)w.refusals, (unsigned long long)w.crashes,
	       (unsigned long long)w.purges, (unsigned long long)w.asked,
	       (unsigned long long)w.found, (unsigned long long)w.looked);
	end();
}

static void run_seeds(unsigned kind)
{
	unsigned long rounds = number_from_env("TIDE_TEST_ROUNDS", FULL(8, 2));
	unsigned long seed = number_from_env("TIDE_TEST_SEED", 0);

	if (seed) {
		run(seed, kind == 1, kind == 2);
		return;
	}
	for (unsigned long i = 0; i < rounds; i++)
		run(i + 1, kind == 1, kind == 2);
}

TEST_THAT(a_shard_does_what_the_model_does)
{
	run_seeds(0);
}

TEST_THAT(so_it_does_when_its_connection_is_cut)
{
	run_seeds(1);
}

TEST_THAT(what_redis_refuses_is_refused_and_nothing_else_is_lost)
{
	run_seeds(2);
}

static void publish_one(double rank, int64_t due_ms)
{
	struct thing *t = &w.things[w.count++];
	struct call *c = call_create(w.count - 1, w.count, true);
	struct msg *m;

	*t = (struct thing){ .fate = FATE_WAITING, .rank = rank, .due_ms = due_ms };
	t->was_delayed = due_ms > 0;
	m = make_msg(id_of(t), "k", "x", 1);
	m->due_unix_ms = due_ms;
	t->priority = m->priority;
	shard_publish(w.shard, m, rank, &c->waiter, false);
	waiter_done(&c->waiter, TIDE_OK, NULL);
	msg_unref(m);
}

static void publish_plain(void)
{
	publish_one(0, 0);
}

/* Longer than the shard takes to come to rest. */
#define LONG_MS 1000000

/* The next one is delivered, and comes back with a delay. */
static void fail_next(int64_t due_ms)
{
	struct entry *e = shard_next(w.shard);
	struct thing *t;

	assert_non_null(e);
	t = thing_of(e->id);
	t->was_tried = t->was_delayed = t->is_retry = true;
	t->due_ms = due_ms;
	shard_hold(e, 100000);
	shard_return(e, due_ms);
}

/* It is found by its id before Redis knows that it has been delayed, and that it sorts
 * behind the others now. */
TEST_THAT(a_message_that_is_found_is_not_read_again)
{
	struct thing *t = &w.things[0];
	struct entry *e;
	struct msg *m;

	begin(0);
	w.env.window_messages = 2;
	while (w.count < 10)
		publish_plain();
	settle_all();
	e = shard_next(w.shard);
	assert_ptr_equal(thing_of(e->id), t);
	shard_hold(e, 100000);
	t->rank = 1;
	m = msg_ref(e->msg);
	shard_revise(e, m, t->rank);
	msg_unref(m);
	shard_return(e, w.env.now_ms + 3000);
	assert_true(use_found(t, e, BY_ID_HOLD, ENTRY_DELAYED));
	check_counts();
	settle_all();
	check_redis(true);
	w.is_ready = true;
	while (count_fate(FATE_WAITING) > 0) {
		deliver();
		turn();
		check_counts();
	}
	assert_int_equal(t->fate, FATE_HELD);
	drain();
	end();
}

static void ask_for_one(struct thing *t, enum by_id what)
{
	struct request *r = mem_zalloc(sizeof(*r));

	r->what = what;
	r->ids[0] = id_of(t);
	r->ask = (struct shard_ask){ .shard = w.shard, .ids = r->ids, .count = 1 };
	r->ask.on_entry = on_found;
	r->ask.on_end = on_asked;
	shard_take_ask(&r->ask);
}

/* It waits for its next attempt in Redis alone. The answer with it comes when it has been
 * purged, and when another message of its group waits: that one has a slot still. */
TEST_THAT(what_a_purge_outruns_has_no_slot)
{
	begin(4);
	w.inflight = w.shard->order->spec.inflight = 1;
	w.env.window_messages = 2;
	publish_plain();
	fail_next(w.env.now_ms + LONG_MS);
	for (int i = 0; i < 4; i++)
		publish_one(0, w.env.now_ms + LONG_MS / 2);
	settle_all();
	ask_for_one(&w.things[0], BY_ID_REMOVE);
	assert_true(w.shard->take.is_taking);
	purge();
	publish_plain();
	fail_next(w.env.now_ms + LONG_MS);
	publish_plain();
	WAIT(&w.h, !w.shard->take.is_taking);
	assert_null(shard_next(w.shard));
	settle_all();
	pass_time(LONG_MS);
	w.is_ready = true;
	drain();
	end();
}

/* One has an attempt that is not written, and is put behind the edge; another one before
 * it, behind the edge as well, is Redis's alone. */
TEST_THAT(a_purge_removes_what_is_before_an_unwritten_one)
{
	begin(0);
	w.env.window_messages = 2;
	while (w.count < 10)
		publish_plain();
	settle_all();
	ask_for_one(&w.things[1], BY_ID_HOLD);
	assert_int_equal(w.things[1].fate, FATE_HELD);
	w.things[1].fate = FATE_WAITING;
	shard_return(w.things[1].entry, 0);
	for (int i = 0; i < 2; i++) {
		pass_time(20);
		publish_one(-1, 0);
	}
	assert_int_equal(w.shard->stages[ENTRY_READY].beyond, 10);
	purge();
	settle_all();
	check_redis(true);
	end();
}

RUN_TESTS()
