#include "check.h"

#include "base/tally.h"

TEST_THAT(each_value_lies_in_its_bucket)
{
	static const unsigned sub_bits[] = { 0, 1, 6 };

	for (size_t i = 0; i < COUNT(sub_bits); i++) {
		unsigned bits = sub_bits[i], last = 0;

		for (uint64_t value = 0; value < 100000; value++) {
			unsigned bucket = histogram_bucket(value, bits);

			assert_in_range(value, histogram_lowest(bucket, bits),
					histogram_lowest(bucket + 1, bits) - 1);
			assert_in_range(bucket, last, last + 1);
			last = bucket;
		}
		assert_int_equal(histogram_bucket(0, bits), 0);
	}
	assert_int_equal(histogram_bucket(UINT64_MAX, 0), 64);
}

TEST_THAT(quantiles_are_known_to_within_a_bucket)
{
	struct histogram h;

	histogram_init(&h);
	assert_int_equal(histogram_at(&h, 0.5), 0);
	for (uint64_t value = 1; value <= 10000; value++)
		histogram_add(&h, value * 1000);
	assert_in_range(histogram_at(&h, 0.5), 4920000, 5080000);
	assert_in_range(histogram_at(&h, 0.99), 9740000, 10000000);
	assert_int_equal(histogram_at(&h, 1), 10000000);
	assert_in_range(histogram_between(&h, 4096000, 8192000), 4000, 4200);
	assert_int_equal(histogram_between(&h, 0, UINT64_MAX), 10000);
	histogram_deinit(&h);
}

TEST_THAT(a_value_beyond_the_last_bucket_is_counted_in_it)
{
	struct histogram h;

	histogram_init(&h);
	histogram_add(&h, UINT64_MAX);
	assert_int_equal(h.total, 1);
	assert_int_equal(h.max, UINT64_MAX);
	assert_int_equal(histogram_between(&h, 0, UINT64_MAX), 1);
	histogram_deinit(&h);
}

RUN_TESTS()
