/* bytes.h: short runs of bytes, eight at a time.
 *
 * Most names and keys are shorter than 20 bytes: memcmp or a loop would cost more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t bytes_load_eight(const char *data)
{
	uint64_t n;

	memcpy(&n, data, sizeof(n));
	return n;
}

/* All of 0 to 8 bytes in one number, equal for equal bytes of the same length.
 * Some are in it twice where there are not eight; 1 to 3 leave zeros at the top. */
static inline uint64_t bytes_load_few(const char *data, size_t len)
{
	const unsigned char *bytes = (const unsigned char *)data;
	uint32_t first, last;

	if (len >= 4) {
		memcpy(&first, data, sizeof(first));
		memcpy(&last, data + len - 4, sizeof(last));
		return first | (uint64_t)last << 32;
	}
	if (len == 0)
		return 0;
	return bytes[0] | (uint32_t)bytes[len / 2] << 8 | (uint32_t)bytes[len - 1] << 16;
}

static inline bool bytes_is_equal(const char *a, const char *b, size_t len)
{
	for (; len > 8; a += 8, b += 8, len -= 8)
		if (bytes_load_eight(a) != bytes_load_eight(b))
			return false;
	return bytes_load_few(a, len) == bytes_load_few(b, len);
}

/* For tables in memory alone: it may differ from machine to machine. */
static inline uint32_t bytes_hash(const char *data, size_t len)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t h = len * factor;

	for (; len > 8; data += 8, len -= 8) {
		h = (h ^ bytes_load_eight(data)) * factor;
		h ^= h >> 32;
	}
	h = (h ^ bytes_load_few(data, len)) * factor;
	/* Once more: what stands twice in a short key would meet in the middle. */
	h = (h ^ h >> 32) * factor;
	return (uint32_t)(h >> 32);
}
