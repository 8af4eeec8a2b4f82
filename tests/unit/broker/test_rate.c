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

RUN_TESTS()
