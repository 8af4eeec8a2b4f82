#include "check.h"

#include "base/tally.h"

TEST_THAT(a_value_counts_in_the_first_step_that_is_not_below_it)
{
	struct tally t = { 0 };

	tally_add(&t, tally_sizes, 0);
	tally_add(&t, tally_sizes, 1);
	tally_add(&t, tally_sizes, 2);
	tally_add(&t, tally_sizes, 4);
	tally_add(&t, tally_sizes, 5);
	tally_add(&t, tally_sizes, 1000000);
	assert_int_equal(t.counts[0], 2);
	assert_int_equal(t.counts[1], 2);
	assert_int_equal(t.counts[2], 1);
	assert_int_equal(t.counts[8], 1);
	assert_int_equal(t.count, 6);
	assert_int_equal(t.sum, 1000012);
	assert_int_equal(t.max, 1000000);
}

TEST_THAT(all_steps_fit)
{
	const uint64_t *const all[] = { tally_times_ns, tally_sizes };

	for (unsigned k = 0; k < 2; k++) {
		unsigned i = 0;

		while (all[k][i] != UINT64_MAX) {
			assert_true(all[k][i] < all[k][i + 1]);
			i++;
		}
		assert_true(i < TALLY_STEPS_MAX);
	}
}

RUN_TESTS()
