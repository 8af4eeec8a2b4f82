/* Keys and where they were seen last, in bounded memory. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "log/compact.h"

#define KEYS 5000

static struct slice key_of(char *text, size_t size, unsigned i)
{
	return (struct slice){ text, (size_t)snprintf(text, size, "user.%u", i * 7919) };
}

TEST_THAT(each_key_has_its_last_offset)
{
	struct key_index *k = key_index_create(KEYS, (size_t)1 << 20);
	uint64_t offset;
	char text[64];

	for (unsigned i = 0; i < 3 * KEYS; i++)
		assert_true(key_index_put(k, key_of(text, sizeof(text), i % KEYS), i));
	for (unsigned i = 0; i < KEYS; i++) {
		assert_true(key_index_find(k, key_of(text, sizeof(text), i), &offset));
		assert_int_equal(offset, 2 * KEYS + i);
	}
	assert_false(key_index_find(k, key_of(text, sizeof(text), KEYS), &offset));
	assert_false(key_index_find(k, SLICE("user"), &offset));
	key_index_destroy(k);
	key_index_destroy(NULL);
}

TEST_THAT(what_it_has_no_room_for_it_refuses)
{
	struct key_index *k = key_index_create(UINT64_MAX / 8, (size_t)256 << 10);
	unsigned count = 0;
	uint64_t offset;
	char text[64];

	while (key_index_put(k, key_of(text, sizeof(text), count), count))
		count++;
	assert_in_range(count, 4000, 8192);
	/* Those that it has may still move. */
	assert_true(key_index_put(k, key_of(text, sizeof(text), 17), 99999));
	for (unsigned i = 0; i < count; i++) {
		assert_true(key_index_find(k, key_of(text, sizeof(text), i), &offset));
		assert_int_equal(offset, i == 17 ? 99999 : i);
	}
	assert_false(key_index_find(k, key_of(text, sizeof(text), count), &offset));
	key_index_destroy(k);
}

TEST_THAT(long_keys_fill_it_too)
{
	struct key_index *k = key_index_create(1000000, (size_t)64 << 10);
	char key[255];
	unsigned count = 0;
	uint64_t offset;

	memset(key, 'k', sizeof(key));
	do {
		memcpy(key + 250, &(uint32_t){ count }, sizeof(uint32_t));
	} while (key_index_put(k, (struct slice){ key, sizeof(key) }, count) && ++count);
	assert_in_range(count, 120, 128);
	memcpy(key + 250, &(uint32_t){ 100 }, sizeof(uint32_t));
	assert_true(key_index_find(k, (struct slice){ key, sizeof(key) }, &offset));
	assert_int_equal(offset, 100);
	key_index_destroy(k);
}

RUN_TESTS()
