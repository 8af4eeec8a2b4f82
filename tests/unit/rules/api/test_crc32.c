

#include "check.h"

#include "rules/api/api_crypto.h"

TEST_THAT(it_is_the_one_of_zlib)
{
	assert_int_equal(api_crypto_crc32(SLICE("")), 0);
	assert_int_equal(api_crypto_crc32(SLICE("123456789")), 0xcbf43926);
	assert_int_equal(
		api_crypto_crc32(SLICE("The quick brown fox jumps over the lazy dog")),
		0x414fa339);
	assert_int_equal(api_crypto_crc32((struct slice){ "\0\xff", 2 }), 0x6cdbfd72);
}

RUN_TESTS()
