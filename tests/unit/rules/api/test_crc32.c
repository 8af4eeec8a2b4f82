

#include "check.h"

#include "rules/api/crc32.h"

TEST_THAT(it_is_the_one_of_zlib)
{
	assert_int_equal(crc32_of(SLICE("")), 0);
	assert_int_equal(crc32_of(SLICE("123456789")), 0xcbf43926);
	assert_int_equal(crc32_of(SLICE("The quick brown fox jumps over the lazy dog")),
			 0x414fa339);
	assert_int_equal(crc32_of((struct slice){ "\0\xff", 2 }), 0x6cdbfd72);
}

RUN_TESTS()
