#include "check.h"

#include "broker/turn_time.h"

#define MS UINT64_C(1000000)

static void a_turn_begins_when_somebody_first_reads_the_clock(void **state)
{
	struct turn_time t = { 0 };

	turn_time_note(&t, 1000 * MS + 1000);
	turn_time_note(&t, 1001 * MS);
	turn_time_check(&t, 1000);
	assert_int_equal(turn_time_end(&t, 1000 * MS + 5000), 4000);
	assert_int_equal(t.busy.count, 1);
	assert_int_equal(t.busy.sum, 4000);
	/* The next one. */
	turn_time_note(&t, 3000 * MS);
	turn_time_check(&t, 3000);
	assert_int_equal(turn_time_end(&t, 3007 * MS), 7 * MS);
	assert_int_equal(t.busy.max, 7 * MS);
}

/* Nobody reads the clock while a file is loaded, say. */
static void what_comes_before_that_is_known_to_within_a_millisecond(void **state)
{
	struct turn_time t = { 0 };

	turn_time_note(&t, 1050 * MS);
	turn_time_check(&t, 1000);
	assert_int_equal(turn_time_end(&t, 1051 * MS), 50 * MS);
}

static void a_turn_that_nobody_noted_takes_no_time(void **state)
{
	struct turn_time t = { 0 };

	assert_int_equal(turn_time_end(&t, 5 * MS), 0);
	turn_time_note(&t, 7 * MS);
	assert_int_equal(turn_time_end(&t, 6 * MS), 0);
	assert_int_equal(t.busy.count, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_begins_when_somebody_first_reads_the_clock),
		cmocka_unit_test(what_comes_before_that_is_known_to_within_a_millisecond),
		cmocka_unit_test(a_turn_that_nobody_noted_takes_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
