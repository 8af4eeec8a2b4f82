#include "base/bytes.h"

#include <stdio.h>

#include "check.h"

#define LEN_MAX 40

/* Each difference of one byte, at every place of every length, anywhere in memory. */
TEST_THAT(bytes_are_equal_when_each_is)
{
	char a[LEN_MAX], b[LEN_MAX + 1];

	memset(a, 'x', sizeof(a));
	for (size_t len = 0; len <= LEN_MAX; len++) {
		char *other = b + len % 2;

		memcpy(other, a, len);
		assert_true(bytes_is_equal(a, other, len));
		assert_int_equal(bytes_hash(a, len), bytes_hash(other, len));
		for (size_t at = 0; at < len; at++) {
			other[at] ^= 0x40;
			assert_false(bytes_is_equal(a, other, len));
			assert_int_not_equal(bytes_hash(a, len), bytes_hash(other, len));
			other[at] ^= 0x40;
		}
	}
}

/* What a table of 1,024 buckets makes of names that differ in a few digits. */
static void check_spread(const char *before, const char *behind)
{
	unsigned buckets[1024] = { 0 }, fullest = 0;
	char name[32];

	for (int i = 0; i < 4096; i++) {
		int len = snprintf(name, sizeof(name), "%s%d%s", before, i, behind);
		unsigned n = ++buckets[bytes_hash(name, (size_t)len) % COUNT(buckets)];

		fullest = n > fullest ? n : fullest;
	}
	/* 4 on average; of chance alone 14 happen once in a hundred tables. */
	assert_in_range(fullest, 4, 20);
}

TEST_THAT(similar_names_spread)
{
	check_spread("", "");
	check_spread("q", "");
	check_spread("orders.", ".eu.paid");
	check_spread("a-long-name-in-front-", "");
}

TEST_THAT(lengths_make_a_difference)
{
	char zeros[LEN_MAX] = { 0 };

	for (size_t len = 0; len < LEN_MAX; len++)
		assert_int_not_equal(bytes_hash(zeros, len), bytes_hash(zeros, len + 1));
}

/* What a table of 1,024 buckets makes of texts that an attacker has computed. */
TEST_THAT(chosen_keys_do_not_share_a_bucket)
{
	/* Twelve times two words whose changed bits cancel out in a hash that multiplies
	 * by a constant: 4,096 texts of one hash, whatever the first word was mixed with.
	 */
	const uint64_t first = UINT64_C(1) << 63, second = first | UINT64_C(1) << 31;
	unsigned buckets[1024] = { 0 }, fullest = 0;

	for (unsigned i = 0; i < 4096; i++) {
		uint64_t words[25] = { 0 };

		for (unsigned bit = 0; bit < 12; bit++) {
			words[2 * bit] = i >> bit & 1 ? first : 0;
			words[2 * bit + 1] = i >> bit & 1 ? second : 0;
		}
		unsigned n = ++buckets[bytes_hash((char *)words, sizeof(words)) %
				       COUNT(buckets)];
		fullest = n > fullest ? n : fullest;
	}
	assert_in_range(fullest, 4, 20);
}

/* Each process has its own key: what collides in one does not in another. */
TEST_THAT(key_changes_the_hash)
{
	const struct bytes_key before = bytes_key;
	unsigned same = 0;

	for (unsigned i = 0; i < 1000; i++) {
		char name[16];
		size_t len = (size_t)snprintf(name, sizeof(name), "key%u", i);
		uint32_t hash = bytes_hash(name, len);

		bytes_seed(before.first, before.second + 1);
		same += hash == bytes_hash(name, len);
		bytes_seed(before.first + 1, before.second);
		same += hash == bytes_hash(name, len);
		bytes_seed(before.first, before.second);
	}
	assert_in_range(same, 0, 1);
}

RUN_TESTS()
