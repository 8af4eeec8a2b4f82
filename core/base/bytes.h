/* bytes.h: short runs of bytes, eight at a time.
 *
 * Most names and keys are shorter than 20 bytes: memcmp or a loop would cost more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The key of bytes_hash: two words that clients do not know. */
struct bytes_key {
	uint64_t first, second;
};
extern struct bytes_key bytes_key;

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

/* Key the hash, once and before any table is filled. Without it, as in tests and in the
 * client library, every process hashes alike. */
void bytes_seed(uint64_t first, uint64_t second);

__extension__ typedef unsigned __int128 bytes_product;

/* Both halves of a product: each bit of it depends on each bit of both factors. */
static inline uint64_t bytes_fold(uint64_t a, uint64_t b)
{
	bytes_product product = (bytes_product)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* For tables in memory alone: it differs from process to process.
 *
 * Clients choose names, keys and ids. Both factors of each product contain a word of
 * the key, so texts that share a bucket cannot be found without it by what is known of
 * the constants. It is no cryptographic hash: SipHash takes several times as many
 * instructions for keys as short as these, on every publish. */
static inline uint64_t bytes_hash_wide(const char *data, size_t len)
{
	const struct bytes_key key = bytes_key;
	uint64_t h = key.first ^ len;
	uint64_t head, tail = 0;

	for (; len > 16; data += 16, len -= 16)
		h = bytes_fold(bytes_load_eight(data) ^ key.second,
			       bytes_load_eight(data + 8) ^ h);
	if (len > 8) {
		head = bytes_load_eight(data);
		tail = bytes_load_eight(data + len - 8);
	} else {
		head = bytes_load_few(data, len);
	}
	return bytes_fold(head ^ key.second, tail ^ h);
}

static inline uint32_t bytes_hash(const char *data, size_t len)
{
	return (uint32_t)(bytes_hash_wide(data, len) * UINT64_C(0x9e3779b97f4a7c15) >>
			  32);
}

/* The lower-case digit of `n`, 0 to 15. */
static inline char hex_digit(unsigned n)
{
	return "0123456789abcdef"[n & 0xf];
}

/* The value of a lower-case digit; -1 when it is none. */
static inline int hex_value_lower(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The same for digits of both cases. */
static inline int hex_value(char c)
{
	return hex_value_lower(c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c);
}

static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 to `limit`, each equally likely. Numbers beyond the last whole multiple are drawn
 * again. */
static inline uint64_t random_up_to(uint64_t *state, uint64_t limit)
{
	uint64_t count = limit + 1;
	uint64_t beyond, drawn;

	if (limit == UINT64_MAX)
		return random_next(state);
	beyond = UINT64_MAX - UINT64_MAX % count;
	do
		drawn = random_next(state);
	while (drawn >= beyond);
	return drawn % count;
}
