/* What calls have cost over the last minute. */

#include "check.h"

#include "rules/sandbox/cost.h"

#define SECOND INT64_C(1000000000)

static struct minute_sum read_at(const struct minute *m, int64_t now_ns)
{
	struct minute_sum sum;

	minute_read(m, now_ns, &sum);
	return sum;
}

TEST_THAT(calls_and_errors_are_added_up)
{
	struct minute m = { 0 };

	minute_add(&m, 1000 * SECOND, 500, false);
	minute_add(&m, 1030 * SECOND, 2000, true);
	struct minute_sum sum = read_at(&m, 1031 * SECOND);
	assert_int_equal(sum.calls, 2);
	assert_int_equal(sum.errors, 1);
	assert_int_equal(sum.time_ns, 2500);
	assert_int_equal(sum.cost.max_ns, 2000);
	assert_true(cost_quantile_ns(&sum.cost, 0.99) >= 1024);
}

TEST_THAT(what_is_older_than_a_minute_is_gone)
{
	struct minute m = { 0 };

	minute_add(&m, 1000 * SECOND, 500, true);
	assert_int_equal(read_at(&m, 1054 * SECOND).calls, 1);
	assert_int_equal(read_at(&m, 1060 * SECOND).calls, 0);
	assert_int_equal(read_at(&m, 9000 * SECOND).calls, 0);
}

TEST_THAT(a_slot_is_emptied_when_its_turn_comes_again)
{
	struct minute m = { 0 };

	for (int64_t s = 1000; s < 1120; s++)
		minute_add(&m, s * SECOND, 1, false);
	assert_int_equal(read_at(&m, 1119 * SECOND).calls, 60);
	minute_add(&m, 1120 * SECOND, 7, false);
	assert_int_equal(read_at(&m, 1120 * SECOND).calls, 56);
}

TEST_THAT(a_call_of_hours_is_counted)
{
	struct minute m = { 0 };

	minute_add(&m, 1000 * SECOND, 3600 * (uint64_t)SECOND, false);
	assert_int_equal(read_at(&m, 1000 * SECOND).cost.buckets[COST_BUCKETS - 1], 1);
}

RUN_TESTS()
