#include "check.h"

#include "broker/rate.h"

/* As an owner does: rate_begin at the first event of a second. */
static void count(struct rate *r, uint64_t *total, int64_t second, unsigned events)
{
	rate_begin(r, *total, second);
	*total += events;
}

TEST_THAT(events_count_in_the_second_they_came_in)
{
	struct rate r = { 0 };
	uint64_t total = 0;

	count(&r, &total, 1000, 10);
	count(&r, &total, 1001, 20);
	count(&r, &total, 1003, 40);
	rate_begin(&r, total, 1004);
	assert_float_equal(rate_over(&r, 1), 40, 0);
	assert_float_equal(rate_over(&r, 2), 20, 0);
	assert_float_equal(rate_over(&r, 3), 20, 0);
	assert_float_equal(rate_over(&r, 4), 17.5, 0);
	assert_float_equal(rate_over(&r, 60), 70.0 / 60, 1e-9);
	rate_begin(&r, total, 1010);
	assert_float_equal(rate_over(&r, 1), 0, 0);
	assert_float_equal(rate_over(&r, 10), 7, 0);
}

TEST_THAT(the_present_second_does_not_count)
{
	struct rate r = { 0 };
	uint64_t total = 0;

	count(&r, &total, 5, 100);
	rate_begin(&r, total, 5);
	assert_float_equal(rate_over(&r, 1), 0, 0);
	assert_float_equal(rate_over(&r, 60), 0, 0);
}

TEST_THAT(all_is_forgotten_after_a_minute)
{
	struct rate r = { 0 };
	uint64_t total = 0;

	for (int64_t second = 1; second <= 200; second++)
		count(&r, &total, second, 3);
	rate_begin(&r, total, 201);
	assert_float_equal(rate_over(&r, 60), 3, 0);
	rate_begin(&r, total, 260);
	assert_float_equal(rate_over(&r, 60), 3.0 / 60, 1e-9);
	rate_begin(&r, total, 261);
	assert_float_equal(rate_over(&r, 60), 0, 0);
	count(&r, &total, 262, 60);
	rate_begin(&r, total, 263);
	assert_float_equal(rate_over(&r, 60), 1, 1e-9);
	rate_begin(&r, total, 100000);
	assert_float_equal(rate_over(&r, 60), 0, 0);
}

TEST_THAT(a_clock_that_stands_changes_nothing)
{
	struct rate r = { 0 };
	uint64_t total = 0;

	count(&r, &total, 7, 1);
	count(&r, &total, 7, 1);
	count(&r, &total, 6, 1);
	rate_begin(&r, total, 8);
	assert_float_equal(rate_over(&r, 1), 3, 0);
}

TEST_THAT(a_rate_is_looked_at_without_a_change)
{
	struct rate r = { 0 };
	uint64_t total = 0;

	assert_float_equal(rate_peek(&r, 0, 1000, 60), 0, 0);
	count(&r, &total, 1000, 10);
	count(&r, &total, 1001, 20);
	for (int64_t second = 1001; second < 1100; second++) {
		static const unsigned spans[] = { 1, 2, 10, 60 };

		for (size_t i = 0; i < 4; i++) {
			struct rate begun = r;

			rate_begin(&begun, total, second);
			assert_float_equal(rate_peek(&r, total, second, spans[i]),
					   rate_over(&begun, spans[i]), 0);
		}
	}
}

/* ---- trends --------------------------------------------------------------------- */

#define AT INT64_C(1795000000000)

TEST_THAT(a_gauge_is_compared_with_the_begin_of_the_minute)
{
	struct trend t = { 0 };

	assert_int_equal(trend_gauge(&t, 100, AT), 0);
	assert_int_equal(trend_gauge(&t, 500, AT + 59999), 0);
	assert_int_equal(trend_gauge(&t, 300, AT + 60000), 200);
	/* It holds for the next minute. */
	assert_int_equal(trend_gauge(&t, 10, AT + 119999), 200);
	assert_int_equal(trend_gauge(&t, 300, AT + 120000), 0);
	assert_int_equal(trend_gauge(&t, 200, AT + 180000), 0);
}

TEST_THAT(a_counter_tells_at_once)
{
	struct trend t = { 0 };

	assert_int_equal(trend_counter(&t, 5, AT), 5);
	assert_int_equal(trend_counter(&t, 7, AT + 30000), 7);
	assert_int_equal(trend_counter(&t, 8, AT + 60000), 8);
	assert_int_equal(trend_counter(&t, 8, AT + 119999), 8);
	assert_int_equal(trend_counter(&t, 8, AT + 120000), 0);
	assert_int_equal(trend_counter(&t, 9, AT + 121000), 1);
}

TEST_THAT(a_clock_that_is_set_back_begins_a_minute)
{
	struct trend t = { 0 };

	trend_gauge(&t, 100, AT);
	assert_int_equal(trend_gauge(&t, 200, AT - 3600000), 0);
	assert_int_equal(trend_gauge(&t, 250, AT - 3600000 + 60000), 50);
}

RUN_TESTS()
