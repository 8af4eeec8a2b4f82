/* Cursors see each offset once and in order, whatever mix of tail and Redis it comes
 * from. */
#include "partition_rig.h"

#define DAY "tide:{//orders#3}:log:20261123"

static void empty_tail(void)
{
	r.env.tail_max_bytes = 0;
	partition_shrink(&r.env);
	assert_int_equal(r.env.tail_bytes, 0);
}

static void expect_from(struct cursor *c, uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		rig_expect(c, from);
}

static void expect_end(struct cursor *c)
{
	struct record record;

	assert_int_equal(rig_next(c, &record), TIDE_EMPTY);
}

/* The next record lies behind what is gone. */
static void expect_jump(struct cursor *c, uint64_t offset)
{
	struct record record;

	assert_int_equal(rig_next(c, &record), TIDE_OK);
	assert_int_equal(record.offset, offset);
	assert_int_equal(rig_serial(&record), r.stored[offset]->serial);
}

TEST_THAT(the_tail_is_read_without_redis)
{
	struct cursor *c = cursor_create(r.p, 0);

	for (unsigned i = 0; i < 20; i++) {
		rig_publish_all(10, 100);
		expect_from(c, 10 * i, 10 * i + 10);
		expect_end(c);
	}
	assert_int_equal(r.env.stats.read_batches, 0);
	rig_expect_all_from(0);
	rig_expect_all_from(55);
	assert_int_equal(r.env.stats.read_batches, 0);
	cursor_destroy(c);
}

TEST_THAT(what_is_not_in_memory_is_read_from_redis)
{
	struct cursor *c = cursor_create(r.p, 0);
	struct record record;
	struct record_batch *batch;
	bool is_ahead = false;

	for (unsigned i = 0; i < 50; i++)
		rig_publish_all(100, 1000);
	empty_tail();
	assert_int_equal(cursor_next(c, &record, &batch), TIDE_AGAIN);
	assert_true(r.env.reading_bytes > 0 && r.env.reading_bytes <= CURSOR_BYTES);
	r.news = 0;
	WAIT(&r.h, r.news == 1);
	for (uint64_t offset = 0; offset < 5000; offset++) {
		struct store_stats stats;

		rig_expect(c, offset);
		assert_true(r.env.reading_bytes <= CURSOR_BYTES);
		store_stats(r.h.store, &stats);
		is_ahead |= stats.pending_requests > 0;
	}
	expect_end(c);
	assert_true(is_ahead);
	cursor_destroy(c);
	rig_expect_all_from(2345);
}

/* How often it must wait for what it reads. */
static unsigned read_all(uint64_t count)
{
	struct cursor *c = cursor_create(r.p, 0);
	struct record record;
	struct record_batch *batch;
	unsigned waits = 0;
	int rc;

	while ((rc = cursor_next(c, &record, &batch)) != TIDE_EMPTY) {
		if (rc == TIDE_OK)
			continue;
		waits++;
		r.news = 0;
		WAIT(&r.h, r.news > 0);
	}
	assert_int_equal(cursor_offset(c), count);
	cursor_destroy(c);
	return waits;
}

TEST_THAT(many_small_batches_take_few_reads)
{
	for (unsigned i = 0; i < 1000; i++)
		rig_publish_all(1, 100);
	empty_tail();
	assert_true(read_all(1000) <= 2);
}

TEST_THAT(a_new_process_knows_how_large_batches_are)
{
	for (unsigned i = 0; i < 300; i++)
		rig_publish_all(1, 8000);
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_true(read_all(300) < 50);
}

/* Gaps and damage included. */
TEST_THAT(when_all_cursors_have_read_much_they_read_little)
{
	struct cursor *c = cursor_create(r.p, 0);
	const size_t much = (size_t)33 << 20;

	for (unsigned i = 0; i < 20; i++)
		rig_publish_all(10, 4000);
	empty_tail();
	tell(&r.h, "ZREMRANGEBYSCORE " DAY " 20 40");
	tell(&r.h, "EVAL %s 1 " DAY,
	     "for _, at in ipairs({ 80, 90, 100 }) do\n"
	     "  redis.call('ZREMRANGEBYSCORE', KEYS[1], at, at)\n"
	     "  redis.call('ZADD', KEYS[1], at, 'no batch ' .. at)\n"
	     "end\n");
	r.env.reading_bytes += much;
	expect_from(c, 0, 20);
	expect_jump(c, 50);
	expect_from(c, 51, 80);
	expect_jump(c, 110);
	for (uint64_t offset = 111; offset < 200; offset++) {
		rig_expect(c, offset);
		assert_true(r.env.reading_bytes <= much + 2 * 65536 + 2 * 42000);
	}
	expect_end(c);
	r.env.reading_bytes -= much;
	cursor_destroy(c);
}

TEST_THAT(a_reader_goes_over_to_the_tail)
{
	struct cursor *c = cursor_create(r.p, 0);

	for (unsigned i = 0; i < 40; i++)
		rig_publish_all(30, 1000);
	r.env.tail_max_bytes = r.env.tail_bytes / 2;
	partition_shrink(&r.env);
	expect_from(c, 0, 1200);
	expect_end(c);
	assert_true(r.env.stats.read_batches <= 21);
	rig_publish_all(30, 1000);
	expect_from(c, 1200, 1230);
	assert_true(r.env.stats.read_batches <= 21);
	cursor_destroy(c);
}

/* It was in the tail, and falls behind. */
TEST_THAT(a_reader_that_the_tail_leaves_behind_goes_on_in_redis)
{
	struct cursor *c = cursor_create(r.p, 0);

	for (unsigned i = 0; i < 40; i++)
		rig_publish_all(30, 1000);
	expect_from(c, 0, 45);
	empty_tail();
	expect_from(c, 45, 600);
	r.env.tail_max_bytes = (size_t)64 << 20;
	for (unsigned i = 0; i < 40; i++)
		rig_publish_all(30, 1000);
	expect_from(c, 600, 1500);
	empty_tail();
	expect_from(c, 1500, 2400);
	expect_end(c);
	cursor_destroy(c);
}

TEST_THAT(reading_goes_on_over_midnight_and_days_without_messages)
{
	for (unsigned day = 0; day < 6; day++) {
		for (unsigned i = 0; i < 5; i++)
			rig_publish_all(7, 100);
		r.env.now_ms += (1 + pick(3)) * DAY_MS;
	}
	empty_tail();
	rig_expect_all_from(0);
	rig_expect_all_from(35);
	rig_expect_all_from(101);
}

TEST_THAT(offsets_below_the_start_are_jumped_over)
{
	struct cursor *c = cursor_create(r.p, 3), *other = cursor_create(r.p, 0);

	for (unsigned i = 0; i < 10; i++)
		rig_publish_all(10, 100);
	rig_expect(c, 3);
	partition_trim(r.p, 7, NULL, NULL);
	expect_jump(c, 7);
	partition_trim(r.p, 44, NULL, NULL);
	expect_jump(c, 44);
	empty_tail();
	expect_from(c, 45, 50);
	rig_expect(c, 50);
	partition_trim(r.p, 77, NULL, NULL);
	expect_jump(c, 77);
	expect_from(c, 78, 100);
	expect_jump(other, 77);
	partition_trim(r.p, 100, NULL, NULL);
	expect_end(other);
	assert_int_equal(cursor_offset(other), 100);
	rig_publish_all(1, 100);
	rig_expect(other, 100);
	cursor_destroy(c);
	cursor_destroy(other);
}

TEST_THAT(what_is_missing_in_redis_is_jumped_over)
{
	struct cursor *c;

	for (unsigned i = 0; i < 10; i++)
		rig_publish_all(10, 100);
	empty_tail();
	tell(&r.h, "ZREMRANGEBYSCORE " DAY " 20 40");
	c = cursor_create(r.p, 0);
	expect_from(c, 0, 20);
	expect_jump(c, 50);
	expect_from(c, 51, 100);
	cursor_seek(c, 25);
	expect_jump(c, 50);
	cursor_destroy(c);
	tell(&r.h, "ZREMRANGEBYSCORE " DAY " 90 90");
	c = cursor_create(r.p, 85);
	expect_from(c, 85, 90);
	expect_end(c);
	assert_int_equal(cursor_offset(c), 100);
	rig_publish_all(1, 100);
	rig_expect(c, 100);
	cursor_destroy(c);
}

/* The day goes on in the tail, and the next one is there too. */
TEST_THAT(a_gap_before_the_tail_ends_where_the_tail_begins)
{
	struct cursor *c = cursor_create(r.p, 10);
	size_t before;

	rig_publish_all(10, 100);
	rig_publish_all(10, 100);
	before = r.env.tail_bytes;
	rig_publish_all(10, 100);
	r.env.now_ms += DAY_MS;
	rig_publish_all(10, 100);
	r.env.tail_max_bytes = r.env.tail_bytes - before;
	partition_shrink(&r.env);
	tell(&r.h, "ZREMRANGEBYSCORE " DAY " 10 10");
	expect_jump(c, 20);
	expect_from(c, 21, 40);
	cursor_destroy(c);
}

TEST_THAT(a_day_whose_key_is_gone_is_jumped_over)
{
	struct cursor *c = cursor_create(r.p, 0);

	for (unsigned day = 0; day < 4; day++) {
		rig_publish_all(10, 100);
		r.env.now_ms += DAY_MS;
	}
	empty_tail();
	tell(&r.h, "DEL tide:{//orders#3}:log:20261124 tide:{//orders#3}:log:20261125");
	expect_from(c, 0, 10);
	expect_jump(c, 30);
	tell(&r.h, "DEL tide:{//orders#3}:log:20261126");
	cursor_seek(c, 12);
	expect_end(c);
	assert_int_equal(cursor_offset(c), 40);
	cursor_destroy(c);
}

/* As the groups do: each time they say where they are. */
TEST_THAT(who_asks_again_for_what_is_missing_gets_over_it)
{
	struct cursor *c = cursor_create(r.p, 0);
	struct record record;
	struct record_batch *batch;

	for (unsigned day = 0; day < 6; day++) {
		rig_publish_all(10, 1000);
		r.env.now_ms += DAY_MS;
	}
	empty_tail();
	tell(&r.h, "DEL tide:{//orders#3}:log:20261123 tide:{//orders#3}:log:20261124");
	for (unsigned i = 0; cursor_next(c, &record, &batch) == TIDE_AGAIN; i++) {
		assert_true(i < 10);
		r.news = 0;
		WAIT(&r.h, r.news > 0);
		cursor_seek(c, 0);
	}
	assert_int_equal(record.offset, 20);
	cursor_seek(c, 5);
	expect_jump(c, 20);
	expect_from(c, 21, 60);
	cursor_destroy(c);
}

TEST_THAT(a_batch_that_cannot_be_read_is_left_out)
{
	struct cursor *c = cursor_create(r.p, 0);

	for (unsigned i = 0; i < 10; i++)
		rig_publish_all(10, 100);
	empty_tail();
	tell(&r.h, "EVAL %s 1 " DAY,
	     "for _, at in ipairs({ 30, 40, 90 }) do\n"
	     "  redis.call('ZREMRANGEBYSCORE', KEYS[1], at, at)\n"
	     "  redis.call('ZADD', KEYS[1], at, 'no batch ' .. at)\n"
	     "end\n");
	expect_from(c, 0, 30);
	expect_jump(c, 50);
	expect_from(c, 51, 90);
	expect_end(c);
	cursor_seek(c, 33);
	expect_jump(c, 50);
	rig_publish_all(1, 100);
	cursor_seek(c, 95);
	expect_jump(c, 100);
	cursor_destroy(c);
}

/* It says that it lies where it does not. */
TEST_THAT(a_batch_of_another_offset_is_left_out)
{
	struct cursor *c = cursor_create(r.p, 0);

	rig_publish_all(10, 100);
	rig_publish_all(10, 100);
	rig_publish_all(10, 100);
	empty_tail();
	tell(&r.h, "EVAL %s 1 " DAY,
	     "local m = redis.call('ZRANGE', KEYS[1], 1, 1)[1]\n"
	     "redis.call('ZADD', KEYS[1], 11, m)\n");
	expect_from(c, 0, 10);
	expect_jump(c, 20);
	cursor_destroy(c);
}

/* What lies in Redis behind what was confirmed may yet be replaced. */
TEST_THAT(what_was_not_confirmed_is_not_read)
{
	struct cursor *c = cursor_create(r.p, 0);

	rig_publish_all(10, 100);
	empty_tail();
	tell(&r.h, "ZADD " DAY " 10 left");
	expect_from(c, 0, 10);
	expect_end(c);
	tell(&r.h, "ZREM " DAY " left");
	rig_publish_all(10, 100);
	empty_tail();
	expect_from(c, 10, 20);
	cursor_destroy(c);
}

TEST_THAT(a_read_that_fails_is_tried_again_after_a_rest)
{
	struct cursor *c = cursor_create(r.p, 0);
	struct record record;
	struct record_batch *batch;

	rig_publish_all(10, 100);
	empty_tail();
	tell(&r.h, "RENAME " DAY " kept");
	tell(&r.h, "SET " DAY " other");
	assert_int_equal(cursor_next(c, &record, &batch), TIDE_AGAIN);
	r.news = 0;
	WAIT(&r.h, r.news == 1);
	assert_int_equal(cursor_next(c, &record, &batch), TIDE_ESTORE);
	assert_int_equal(partition_due_ms(&r.env), r.env.now_ms + 200);
	partition_flush(&r.env);
	assert_int_equal(r.news, 1);
	tell(&r.h, "RENAME kept " DAY);
	r.env.now_ms += 200;
	assert_int_equal(partition_due_ms(&r.env), r.env.now_ms);
	partition_flush(&r.env);
	assert_int_equal(r.news, 2);
	assert_int_equal(partition_due_ms(&r.env), 0);
	expect_from(c, 0, 10);
	cursor_destroy(c);
}

TEST_THAT(a_cursor_may_go_anywhere)
{
	struct cursor *c = cursor_create(r.p, 0);

	for (unsigned i = 0; i < 100; i++)
		rig_publish_all(1 + pick(30), 500);
	for (unsigned i = 0; i < 400; i++) {
		uint64_t at = pick(4) ? cursor_offset(c) + pick(60) : random_next();

		if (pick(8) == 0 && cursor_offset(c) > 30)
			at = cursor_offset(c) - pick(30);
		at %= r.stored_count;
		r.env.tail_max_bytes = pick(1 << 20);
		partition_shrink(&r.env);
		cursor_seek(c, at);
		assert_int_equal(cursor_offset(c), at);
		for (unsigned n = pick(100); n > 0 && at < r.stored_count; n--)
			rig_expect(c, at++);
		if (pick(5) == 0)
			rig_publish_all(1 + pick(30), 500);
	}
	cursor_destroy(c);
}

TEST_THAT(a_cursor_may_be_destroyed_or_moved_while_it_reads)
{
	struct cursor *c = cursor_create(r.p, 0);
	struct record record;
	struct record_batch *batch;

	for (unsigned i = 0; i < 10; i++)
		rig_publish_all(10, 100);
	empty_tail();
	assert_int_equal(cursor_next(c, &record, &batch), TIDE_AGAIN);
	cursor_destroy(c);
	c = cursor_create(r.p, 50);
	assert_int_equal(cursor_next(c, &record, &batch), TIDE_AGAIN);
	cursor_seek(c, 20);
	expect_from(c, 20, 100);
	cursor_seek(c, 20);
	assert_int_equal(cursor_next(c, &record, &batch), TIDE_AGAIN);
	cursor_seek(c, 80);
	expect_from(c, 80, 100);
	cursor_destroy(c);
}

RUN_TESTS(.setup = rig_setup, .teardown = rig_teardown)
