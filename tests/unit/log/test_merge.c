/* Small batches become large ones in Redis, and no reader sees a difference. */
#include "partition_rig.h"

#include "log/compact.h"

#define LOG "tide:{//orders#3}:log"
#define DAY LOG ":20261123"

/* Turns until nothing is left to be merged. */
static void merge_all(void)
{
	rig_settle();
	do {
		merge_flush(&r.env);
		WAIT(&r.h, r.env.merge_flights == 0);
	} while (!TAILQ_EMPTY(&r.env.merges));
}

static void publish_small(unsigned batches)
{
	while (batches-- > 0) {
		rig_publish_all(1, 100);
		merge_all();
	}
}

static void empty_tail(void)
{
	r.env.tail_max_bytes = 0;
	partition_shrink(&r.env);
}

static long long batches_in_redis(void)
{
	return ask_int(&r.h, "ZCARD " DAY);
}

/* All batches of the day lie side by side, and none is too long. */
static void expect_dense(void)
{
	redisReply *reply = ask(&r.h, "ZRANGE " DAY " 0 -1 WITHSCORES");
	uint64_t end = 0;

	for (size_t i = 0; i < reply->elements; i += 2) {
		struct slice bytes = { reply->element[i]->str, reply->element[i]->len };
		struct record_batch *b;

		assert_int_equal(record_open(bytes, &b, NULL), TIDE_OK);
		assert_int_equal(b->base, end);
		assert_int_equal(b->base, strtoull(reply->element[i + 1]->str, NULL, 10));
		assert_int_equal(b->count, b->end - b->base);
		assert_true(b->len <= RECORD_BATCH_BYTES);
		end = b->end;
		record_batch_unref(b);
	}
	freeReplyObject(reply);
	assert_int_equal(end, partition_readable(r.p));
}

TEST_THAT(sixteen_small_batches_become_one)
{
	publish_small(15);
	assert_int_equal(batches_in_redis(), 15);
	publish_small(1);
	assert_int_equal(batches_in_redis(), 1);
	assert_int_equal(r.env.stats.merged, 16);
	expect_dense();
	empty_tail();
	rig_expect_all_from(0);
	rig_expect_all_from(7);
	publish_small(16);
	assert_int_equal(batches_in_redis(), 2);
	empty_tail();
	rig_expect_all_from(3);
}

TEST_THAT(a_thousand_single_messages_take_few_batches)
{
	publish_small(1500);
	expect_dense();
	assert_true(batches_in_redis() <= 2 + 15 + 30);
	/* Each was written again three times at most. */
	assert_true(r.env.stats.merged < 1500 + 1500 / 16 + 1500 / 256 + 16);
	empty_tail();
	rig_expect_all_from(0);
	rig_expect_all_from(1111);
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_end(r.p), 1500);
	rig_expect_all_from(0);
	publish_small(40);
	empty_tail();
	rig_expect_all_from(1400);
}

TEST_THAT(without_a_tail_they_are_read_from_redis)
{
	r.env.tail_max_bytes = 0;
	publish_small(300);
	expect_dense();
	assert_true(batches_in_redis() <= 18 + 15);
	rig_expect_all_from(0);
}

/* What is large from the start stays as it is. */
TEST_THAT(large_batches_are_left_alone)
{
	for (unsigned i = 0; i < 40; i++)
		rig_publish_all(10, 1000);
	merge_all();
	assert_int_equal(batches_in_redis(), 40);
	assert_int_equal(r.env.stats.merged, 0);
	publish_small(10);
	rig_publish_all(10, 1000);
	publish_small(16);
	assert_int_equal(batches_in_redis(), 40 + 10 + 1 + 1);
	expect_dense();
	empty_tail();
	rig_expect_all_from(0);
}

TEST_THAT(batches_of_any_size_stay_dense)
{
	for (unsigned i = 0; i < 600; i++) {
		rig_publish_all(1 + pick(12), pick(60) ? 40 + pick(200) : 3000);
		if (pick(3) == 0)
			merge_all();
		if (pick(20) == 0)
			empty_tail();
		r.env.tail_max_bytes = pick(1 << 18);
	}
	merge_all();
	expect_dense();
	assert_true(batches_in_redis() < 200);
	empty_tail();
	for (uint64_t from = 0; from < r.stored_count; from += 1 + pick(400))
		rig_expect_all_from(from);
}

/* It has read the first of those that become one, and goes on. */
TEST_THAT(a_reader_in_between_misses_nothing)
{
	for (unsigned begin = 0; begin < 16; begin++) {
		struct cursor *c;
		uint64_t from = r.stored_count, at = from + begin;

		for (unsigned i = 0; i < 15; i++)
			rig_publish_all(4, 100);
		/* So that each read is of two batches. */
		empty_tail();
		r.env.reading_bytes += (size_t)64 << 20;
		c = cursor_create(r.p, at);
		for (; at < from + 17; at++)
			rig_expect(c, at);
		rig_publish_all(4, 100);
		merge_all();
		empty_tail();
		for (; at < r.stored_count; at++)
			rig_expect(c, at);
		cursor_destroy(c);
		r.env.reading_bytes -= (size_t)64 << 20;
	}
}

static void on_found(void *ctx, int status, const char *text, uint64_t offset)
{
	assert_int_equal(status, TIDE_OK);
	*(uint64_t *)ctx = offset;
}

/* Batches become fewer while a time is looked for. */
TEST_THAT(a_time_is_found_while_batches_are_merged)
{
	for (unsigned round = 0; round < 12; round++) {
		uint64_t found = UINT64_MAX, offset;

		for (unsigned i = 0; i < 70; i++) {
			r.env.now_ms += 10;
			rig_publish_all(1, 100);
		}
		empty_tail();
		offset = pick((unsigned)r.stored_count);
		r.env.merge_retry_ms = 0;
		partition_find_time(r.p, r.stored[offset]->ms, on_found, &found);
		for (unsigned i = 0; i < 20; i++) {
			merge_flush(&r.env);
			uv_run(&r.h.loop, UV_RUN_NOWAIT);
		}
		WAIT(&r.h, found != UINT64_MAX);
		assert_int_equal(found, offset);
		merge_all();
		/* So that the next ones are merged in the search. */
		r.env.merge_retry_ms = r.env.now_ms + 5000;
	}
}

TEST_THAT(what_is_left_of_a_day_is_merged_on_the_next)
{
	publish_small(40);
	assert_int_equal(batches_in_redis(), 2 + 8);
	r.env.now_ms += DAY_MS;
	publish_small(1);
	assert_int_equal(batches_in_redis(), 1);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261124"), 1);
	empty_tail();
	rig_expect_all_from(0);
	r.env.now_ms += DAY_MS;
	rig_publish_all(10, 1000);
	merge_all();
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261124"), 1);
	rig_expect_all_from(0);
}

TEST_THAT(what_redis_refuses_is_merged_later)
{
	publish_small(10);
	for (unsigned i = 0; i < 6; i++)
		rig_publish_all(1, 100);
	tell(&r.h, "CONFIG SET maxmemory 1");
	WAIT(&r.h, r.env.merge_flights == 0);
	merge_flush(&r.env);
	WAIT(&r.h, r.env.merge_flights == 0);
	tell(&r.h, "CONFIG SET maxmemory 0");
	assert_int_equal(batches_in_redis(), 16);
	assert_int_equal(partition_due_ms(&r.env), r.env.now_ms + 5000);
	partition_flush(&r.env);
	assert_int_equal(r.env.merge_flights, 0);
	rig_publish_all(1, 100);
	r.env.now_ms += 5000;
	assert_int_equal(partition_due_ms(&r.env), r.env.now_ms);
	merge_all();
	assert_int_equal(batches_in_redis(), 1);
	expect_dense();
	empty_tail();
	rig_expect_all_from(0);
}

static void on_trimmed(void *ctx, int status, const char *text)
{
	assert_int_equal(status, TIDE_OK);
	*(bool *)ctx = true;
}

TEST_THAT(what_is_trimmed_does_not_come_back)
{
	bool is_trimmed = false;

	for (unsigned i = 0; i < 16; i++)
		rig_publish_all(1, 100);
	partition_trim(r.p, 16, on_trimmed, &is_trimmed);
	merge_all();
	WAIT(&r.h, is_trimmed);
	assert_int_equal(ask_int(&r.h, "EXISTS " DAY), 0);
	publish_small(12);
	partition_trim(r.p, 20, NULL, NULL);
	publish_small(40);
	rig_expect_all_from(20);
	assert_int_equal(ask_int(&r.h, "ZCOUNT " DAY " 0 19"), 0);
	empty_tail();
	rig_expect_all_from(20);
}

TEST_THAT(a_batch_that_cannot_be_read_is_not_merged)
{
	struct cursor *c;

	r.env.tail_max_bytes = 0;
	for (unsigned i = 0; i < 15; i++)
		rig_publish_all(1, 100);
	tell(&r.h, "ZREMRANGEBYSCORE " DAY " 4 4");
	tell(&r.h, "ZADD " DAY " 4 other");
	publish_small(1);
	assert_int_equal(batches_in_redis(), 16);
	publish_small(16);
	assert_int_equal(batches_in_redis(), 17);
	c = cursor_create(r.p, 0);
	for (uint64_t offset = 0; offset < 32; offset++)
		if (offset != 4)
			rig_expect(c, offset);
	cursor_destroy(c);
}

TEST_THAT(a_partition_may_close_while_it_merges)
{
	r.env.tail_max_bytes = 0;
	for (unsigned i = 0; i < 16; i++)
		rig_publish_all(1, 100);
	merge_flush(&r.env);
	assert_int_equal(rig_recover(), TIDE_OK);
	WAIT(&r.h, r.env.merge_flights == 0);
	rig_expect_all_from(0);
	for (unsigned i = 0; i < 16; i++)
		rig_publish_all(1, 100);
}

UNKEPT_TEST(without_keys_nothing_is_merged)
{
	for (unsigned i = 0; i < 100; i++)
		rig_publish_all(1, 100);
	assert_true(TAILQ_EMPTY(&r.env.merges));
	rig_expect_all_from(0);
}

RUN_TESTS(.setup = rig_setup, .teardown = rig_teardown)
