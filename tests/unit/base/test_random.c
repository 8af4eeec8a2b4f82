#include "check.h"

#include "base/bytes.h"

TEST_THAT(a_seed_gives_one_sequence)
{
	uint64_t a = 0, b = 0;

	/* The reference values of SplitMix64 for the seed 0. */
	assert_true(random_next(&a) == UINT64_C(0xe220a8397b1dcdaf));
	assert_true(random_next(&a) == UINT64_C(0x6e789e6aa1b965f4));
	random_next(&b);
	random_next(&b);
	assert_true(a == b);
}

TEST_THAT(numbers_stay_within_their_limit)
{
	uint64_t seed = 7, seen = 0;

	for (int i = 0; i < 1000; i++) {
		uint64_t n = random_up_to(&seed, 5);

		assert_in_range(n, 0, 5);
		seen |= UINT64_C(1) << n;
	}
	assert_int_equal(seen, 0x3f);
	assert_int_equal(random_up_to(&seed, 0), 0);
	random_up_to(&seed, UINT64_MAX);
}

RUN_TESTS()
