#include "base/decimal.h"

#include <inttypes.h>
#include <stdio.h>

#include "check.h"

static void check_uint(uint64_t n)
{
	char want[32], got[32];
	int len = snprintf(want, sizeof(want), "%" PRIu64, n);
	char *end = decimal_put(got, n);

	assert_int_equal(decimal_len(n), len);
	assert_int_equal(end - got, len);
	assert_memory_equal(got, want, (size_t)len);
}

static void check_int(int64_t n)
{
	char want[32], got[32];
	int len = snprintf(want, sizeof(want), "%" PRId64, n);

	assert_int_equal(decimal_put_int(got, n) - got, len);
	assert_memory_equal(got, want, (size_t)len);
}

TEST_THAT(digits_are_those_of_printf)
{
	for (uint64_t n = 0; n < 20000; n++)
		check_uint(n);
	for (uint64_t n = 1; n <= UINT64_MAX / 10; n *= 10)
		for (uint64_t i = 0; i < 3; i++)
			check_uint(n * 10 + i - 1);
	check_uint(UINT64_MAX);
	check_uint(UINT64_C(1700000000123));
}

TEST_THAT(a_negative_number_has_a_sign)
{
	static const int64_t numbers[] = { 0,         1,        -1,   -9,
					   -10,       -99,      -100, -1700000000123,
					   INT64_MIN, INT64_MAX };

	for (size_t i = 0; i < COUNT(numbers); i++)
		check_int(numbers[i]);
}

RUN_TESTS()
