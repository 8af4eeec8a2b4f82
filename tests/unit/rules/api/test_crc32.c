#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/api/crc32.h"

static void it_is_the_one_of_zlib(void **state)
{
	assert_int_equal(crc32_of(SLICE("")), 0);
	assert_int_equal(crc32_of(SLICE("123456789")), 0xcbf43926);
	assert_int_equal(crc32_of(SLICE("The quick brown fox jumps over the lazy dog")),
			 0x414fa339);
	assert_int_equal(crc32_of((struct slice){ "\0\xff", 2 }), 0x6cdbfd72);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_the_one_of_zlib),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
