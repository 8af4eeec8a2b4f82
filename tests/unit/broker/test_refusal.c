#include "check.h"

#include "base/mem.h"
#include "broker/queue.h"
#include "rules/engine/engine_private.h"

#define SHARDS 2
#define ENTRIES 300

/* A queue of bare structs, whose messages are all in memory. */
static struct world {
	struct broker broker;
	struct engine engine;
	struct vhost vhost;
	struct queue queue;
	struct shard_env env;
	struct shard shards[SHARDS];
	struct shard *by_index[SHARDS];
	struct consumer one, other;
	struct msg msg;
	struct entry entries[ENTRIES];
} * w;

static int setup(void **state)
{
	struct queue *q;

	w = mem_zalloc(sizeof(*w));
	q = &w->queue;
	w->broker.engine = &w->engine;
	w->vhost.broker = &w->broker;
	q->vhost = &w->vhost;
	q->config.shards = q->shard_count = SHARDS;
	q->by_index = q->shards = w->by_index;
	TAILQ_INIT(&q->refusals);
	pool_init(&w->env.lanes, sizeof(struct lane), 16);
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *sh = w->by_index[i] = &w->shards[i];

		sh->env = &w->env;
		sh->index = i;
		sh->stages[ENTRY_READY].shard = sh;
		window_init(&sh->stages[ENTRY_READY].window, &w->env.lanes);
	}
	w->one.queue = w->other.queue = q;
	w->msg.bytes = 1;
	return 0;
}

static void leave(struct entry *e)
{
	window_remove(&e->shard->stages[ENTRY_READY].window, e);
}

static int teardown(void **state)
{
	struct entry *e;

	refusal_forget(&w->one);
	refusal_forget(&w->other);
	for (unsigned i = 0; i < SHARDS; i++) {
		struct window *ready = &w->shards[i].stages[ENTRY_READY].window;

		assert_false(w->shards[i].has_passed);
		while ((e = window_first(ready)) != NULL)
			window_remove(ready, e);
	}
	heap_deinit(&w->broker.wakes);
	pool_deinit(&w->env.lanes);
	mem_free(w);
	return 0;
}

/* The message becomes ready: its rank is its id, unless it has another. */
static struct entry *enter_ranked(unsigned shard, uint64_t id, double rank)
{
	struct entry *e = &w->entries[id];

	e->id = id;
	e->rank = rank;
	e->msg = &w->msg;
	e->shard = &w->shards[shard];
	refusal_entering(&w->queue, e);
	window_insert(&e->shard->stages[ENTRY_READY].window, e, rank);
	return e;
}

static struct entry *enter(unsigned shard, uint64_t id)
{
	return enter_ranked(shard, id, (double)id);
}

static void refuse(struct consumer *c, uint64_t id)
{
	refusal_add(c, &w->entries[id]);
}

/* The next message that it would be given; 0: none. */
static uint64_t next(struct consumer *c)
{
	bool is_unfinished = false;
	const struct entry *e = refusal_next(c, &is_unfinished);

	assert_false(is_unfinished);
	return e ? e->id : 0;
}

TEST_THAT(what_was_refused_is_passed_over)
{
	for (uint64_t id = 1; id <= 6; id++)
		enter(id % SHARDS, id);
	refuse(&w->one, 1);
	assert_int_equal(next(&w->one), 2);
	refuse(&w->one, 2);
	refuse(&w->one, 3);
	assert_int_equal(next(&w->one), 4);
	leave(&w->entries[4]);
	assert_int_equal(next(&w->one), 5);
	assert_true(w->shards[0].has_passed && w->shards[1].has_passed);
}

TEST_THAT(each_consumer_has_its_own)
{
	for (uint64_t id = 1; id <= 4; id++)
		enter(0, id);
	refuse(&w->one, 1);
	refuse(&w->one, 2);
	refuse(&w->other, 1);
	assert_int_equal(next(&w->one), 3);
	assert_int_equal(next(&w->other), 2);
	refusal_forget(&w->one);
	refusal_forget(&w->one);
	assert_null(w->one.refusal);
	assert_true(w->shards[0].has_passed);
	assert_int_equal(next(&w->other), 2);
	refusal_forget(&w->other);
	assert_false(w->shards[0].has_passed);
}

TEST_THAT(what_becomes_ready_before_is_looked_at)
{
	enter(0, 10);
	enter(0, 20);
	enter(0, 30);
	refuse(&w->one, 10);
	refuse(&w->one, 20);
	enter(0, 15);
	enter(0, 5);
	enter(0, 25);
	assert_int_equal(next(&w->one), 5);
	refuse(&w->one, 5);
	assert_int_equal(next(&w->one), 15);
	refuse(&w->one, 15);
	assert_int_equal(next(&w->one), 25);
	refuse(&w->one, 25);
	assert_int_equal(next(&w->one), 30);
	refuse(&w->one, 30);
	assert_int_equal(next(&w->one), 0);
}

TEST_THAT(what_has_gone_again_is_not)
{
	enter(0, 10);
	refuse(&w->one, 10);
	leave(enter(0, 5));
	enter(0, 6);
	assert_int_equal(next(&w->one), 6);
}

/* Some may be asked about twice then, but none is missed. */
TEST_THAT(many_that_become_ready_before_are_all_looked_at)
{
	bool seen[ENTRIES] = { false };
	uint64_t id;

	enter(0, 250);
	refuse(&w->one, 250);
	for (id = 200; id > 0; id--)
		enter(0, id);
	while ((id = next(&w->one)) != 0) {
		seen[id] = true;
		refuse(&w->one, id);
	}
	for (id = 1; id <= 200; id++)
		assert_true(seen[id]);
}

TEST_THAT(ranks_come_before_ids)
{
	enter_ranked(0, 9, 1);
	enter_ranked(0, 8, 2);
	enter_ranked(1, 7, 1.5);
	refuse(&w->one, 9);
	assert_int_equal(next(&w->one), 7);
	refuse(&w->one, 7);
	assert_int_equal(next(&w->one), 8);
}

TEST_THAT(what_has_expired_is_passed_over)
{
	enter(0, 1);
	enter(0, 2)->expires_unix_ms = 1000;
	enter(0, 3)->expires_unix_ms = 1001;
	refuse(&w->one, 1);
	w->env.now_ms = 1000;
	assert_int_equal(next(&w->one), 3);
}

TEST_THAT(after_a_time_all_is_asked_again)
{
	struct broker *b = &w->broker;

	b->mono_ms = 100;
	enter(0, 1);
	refuse(&w->one, 1);
	b->mono_ms = 200;
	refuse(&w->other, 1);
	assert_int_equal(heap_min(&b->wakes)->key, 100 + REFUSAL_MS);
	b->mono_ms = 99 + REFUSAL_MS;
	refusal_turn(&w->queue);
	assert_non_null(w->one.refusal);
	assert_false(w->queue.has_news);
	b->mono_ms = 100 + REFUSAL_MS;
	heap_remove(&b->wakes, heap_min(&b->wakes));
	refusal_turn(&w->queue);
	assert_null(w->one.refusal);
	assert_non_null(w->other.refusal);
	assert_true(w->queue.has_news);
	assert_int_equal(heap_min(&b->wakes)->key, 200 + REFUSAL_MS);
	assert_true(w->shards[0].has_passed);
}

TEST_THAT(with_other_rules_all_is_asked_again)
{
	enter(0, 1);
	refuse(&w->one, 1);
	refuse(&w->other, 1);
	w->engine.epoch++;
	w->broker.mono_ms = 1;
	queue_wake_all(&w->broker);
	assert_int_equal(w->queue.wake.key, 1);
	refusal_turn(&w->queue);
	assert_null(w->one.refusal);
	assert_null(w->other.refusal);
}

TEST_THAT(looks_are_bounded_in_that_time)
{
	for (uint64_t id = 1; id <= 3; id++)
		enter(0, id);
	for (unsigned i = 0; i < REFUSAL_LOOKS - 1; i++)
		refuse(&w->one, 1);
	assert_int_equal(next(&w->one), 2);
	refuse(&w->one, 2);
	assert_int_equal(next(&w->one), 0);
	w->broker.mono_ms = REFUSAL_MS;
	refusal_turn(&w->queue);
	refuse(&w->one, 1);
	assert_int_equal(next(&w->one), 2);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
