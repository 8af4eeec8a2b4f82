/* record_seal.h: a record batch whose checksum is right, whatever its bytes are. */
#ifndef TIDE_TEST_RECORD_SEAL_H
#define TIDE_TEST_RECORD_SEAL_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline void record_seal(char *bytes, size_t len)
{
	uint64_t sum = htole64(XXH3_64bits(bytes + 9, len - 9));

	memcpy(bytes + 1, &sum, sizeof(sum));
}

#endif
