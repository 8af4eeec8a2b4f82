#include "check.h"

#include "broker/rate.h"

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
