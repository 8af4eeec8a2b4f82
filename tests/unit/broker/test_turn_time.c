#include "check.h"

#include "broker/turn_time.h"

#define MS UINT64_C(1000000)

static uint64_t end(struct turn_time *t, uint64_t now_ns)
{
	turn_time_end(t, now_ns);
	return turn_time_took_ns(t);
}

TEST_THAT(a_turn_begins_when_somebody_first_reads_the_clock)
{
	struct turn_time t = { 0 };

	turn_time_enter(&t, TURN_REQUESTS, 1, 1000 * MS + 1000);
	turn_time_enter(&t, TURN_REQUESTS, 1, 1000 * MS + 2000);
	turn_time_check(&t, 1000);
	assert_int_equal(end(&t, 1000 * MS + 5000), 4000);
	assert_int_equal(t.busy.count, 1);
	assert_int_equal(t.busy.sum, 4000);
	/* The next one. */
	turn_time_enter(&t, TURN_STORE, 0, 3000 * MS);
	turn_time_check(&t, 3000);
	assert_int_equal(end(&t, 3007 * MS), 7 * MS);
	assert_int_equal(t.busy.max, 7 * MS);
}

/* Nobody reads the clock while a file is loaded, say. */
TEST_THAT(what_comes_before_that_is_known_to_within_a_millisecond)
{
	struct turn_time t = { 0 };

	turn_time_enter(&t, TURN_TIMEOUTS, 0, 1050 * MS);
	turn_time_check(&t, 1000);
	assert_int_equal(end(&t, 1051 * MS), 50 * MS);
	assert_int_equal(t.parts_ns[TURN_OTHER], 49 * MS);
	assert_int_equal(t.parts_ns[TURN_TIMEOUTS], MS);
}

TEST_THAT(a_turn_that_nobody_noted_takes_no_time)
{
	struct turn_time t = { 0 };

	assert_int_equal(end(&t, 5 * MS), 0);
	turn_time_enter(&t, TURN_TIMEOUTS, 0, 7 * MS);
	assert_int_equal(end(&t, 6 * MS), 0);
	assert_int_equal(t.busy.count, 2);
}

TEST_THAT(a_slow_turn_has_parts_and_a_longest_piece)
{
	struct turn_time t = { .slow_ns = 50 * MS };
	struct buf text = { 0 };

	turn_time_enter(&t, TURN_REQUESTS, 7, 1000 * MS);
	turn_time_enter(&t, TURN_REQUESTS, 12, 1003 * MS);
	turn_time_name(&t, NULL, 1004 * MS);
	turn_time_name(&t, "LIST", 1044 * MS);
	turn_time_enter(&t, TURN_STORE, 0, 1045 * MS);
	turn_time_enter(&t, TURN_DELIVERIES, 0, 1046 * MS);
	assert_true(turn_time_end(&t, 1060 * MS));
	assert_int_equal(t.slow, 1);
	turn_time_describe(&t, &text);
	assert_string_equal(buf_cstr(&text),
			    "requests 45.0 ms, deliveries 14.0 ms; the longest: LIST of "
			    "connection 12, 40.0 ms");
	/* The next one is another. */
	turn_time_enter(&t, TURN_WRITING, 0, 2000 * MS);
	assert_false(turn_time_end(&t, 2050 * MS));
	buf_clear(&text);
	turn_time_describe(&t, &text);
	assert_string_equal(buf_cstr(&text), "writing to Redis 50.0 ms");
	assert_int_equal(t.slow, 1);
	buf_deinit(&text);
}

TEST_THAT(without_a_limit_no_turn_is_slow)
{
	struct turn_time t = { 0 };

	turn_time_enter(&t, TURN_REQUESTS, 1, 1000 * MS);
	assert_false(turn_time_end(&t, 90000 * MS));
	assert_int_equal(t.slow, 0);
}

RUN_TESTS()
