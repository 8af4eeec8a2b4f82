#include "check.h"

#include <stdlib.h>

#include "session/held.h"

#define ENTRIES 5000

static struct entry entries[ENTRIES];
static struct held held;

static int setup(void **state)
{
	memset(entries, 0, sizeof(entries));
	held_init(&held);
	return 0;
}

static int teardown(void **state)
{
	held_deinit(&held);
	return 0;
}

static struct entry *find(const struct held *h, uint64_t tag)
{
	struct entry *e = held_from(h, tag);

	return e && e->tag == tag ? e : NULL;
}

static void tags_start_at_one_and_count_up(void **state)
{
	for (uint64_t tag = 1; tag <= 100; tag++)
		assert_int_equal(held_add(&held, &entries[tag]), tag);
	for (uint64_t tag = 1; tag <= 100; tag++)
		assert_ptr_equal(find(&held, tag), &entries[tag]);
	assert_int_equal(entries[7].tag, 7);
	assert_int_equal(held.count, 100);
}

static void a_tag_that_is_not_held_is_not_found(void **state)
{
	held_add(&held, &entries[0]);
	assert_null(find(&held, 0));
	assert_null(find(&held, 2));
	assert_null(find(&held, UINT64_MAX));
	held_remove(&held, 1);
	assert_null(find(&held, 1));
	assert_null(held_from(&held, 0));
	assert_int_equal(held.count, 0);
}

static void removing_what_is_not_held_does_nothing(void **state)
{
	held_add(&held, &entries[0]);
	held_remove(&held, 5);
	held_remove(&held, 0);
	held_remove(&held, UINT64_MAX);
	assert_int_equal(held.count, 1);
	held_remove(&held, 1);
	held_remove(&held, 1);
	assert_int_equal(held.count, 0);
}

static void the_first_from_a_tag_on_skips_gaps(void **state)
{
	for (int i = 0; i < 10; i++)
		held_add(&held, &entries[i]);
	for (uint64_t tag = 3; tag <= 6; tag++)
		held_remove(&held, tag);
	assert_int_equal(held_from(&held, 0)->tag, 1);
	assert_int_equal(held_from(&held, 3)->tag, 7);
	assert_int_equal(held_from(&held, 10)->tag, 10);
	assert_null(held_from(&held, 11));
}

static void tags_are_not_used_again(void **state)
{
	for (int i = 0; i < 50; i++) {
		uint64_t tag = held_add(&held, &entries[0]);

		assert_int_equal(tag, i + 1);
		held_remove(&held, tag);
	}
}

static void one_held_for_ever_costs_one_slot(void **state)
{
	held_add(&held, &entries[0]);
	for (int i = 0; i < 100000; i++)
		held_remove(&held, held_add(&held, &entries[1]));
	assert_ptr_equal(find(&held, 1), &entries[0]);
	assert_true(held.cap <= 64);
}

/* A walk over the gap each time would take minutes. */
static void a_wide_gap_is_passed_at_once(void **state)
{
	enum { GAP = 1000000 };

	held_add(&held, &entries[0]);
	for (int i = 0; i < GAP; i++)
		held_add(&held, &entries[1]);
	held_add(&held, &entries[2]);
	/* From the last to the first, so that no gap begins as part of a longer one. */
	for (uint64_t tag = GAP + 1; tag > 1; tag--)
		held_remove(&held, tag);
	for (uint64_t i = 0; i < GAP; i++)
		assert_ptr_equal(held_from(&held, 2 + i), &entries[2]);
	for (uint64_t i = 0; i < GAP; i++)
		assert_ptr_equal(held_from(&held, 2), &entries[2]);
}

static void the_room_of_what_was_last_is_used_again(void **state)
{
	for (int i = 0; i < 16; i++)
		held_add(&held, &entries[i]);
	for (int i = 0; i < 100000; i++)
		held_remove(&held, held_add(&held, &entries[16]));
	assert_int_equal(held.cap, 32);
	assert_ptr_equal(held_last(&held), &entries[15]);
}

static void random_use_agrees_with_a_plain_table(void **state)
{
	static struct entry *table[20001], many[20001];
	uint64_t last = 0, count = 0;

	srand(3);
	for (int i = 0; i < 40000; i++) {
		uint64_t tag = last ? (uint64_t)rand() % last + 1 : 1, from;

		if (rand() % 2 && last < 20000) {
			last = held_add(&held, &many[last + 1]);
			table[last] = &many[last];
			count++;
		} else if (table[tag]) {
			held_remove(&held, tag);
			table[tag] = NULL;
			count--;
		}
		assert_int_equal(held.count, count);
		tag = (uint64_t)rand() % (last + 2);
		assert_ptr_equal(find(&held, tag), tag <= last ? table[tag] : NULL);
		for (from = tag; from <= last && !table[from]; from++)
			;
		assert_ptr_equal(held_from(&held, tag),
				 from <= last ? table[from] : NULL);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(tags_start_at_one_and_count_up),
		TEST(a_tag_that_is_not_held_is_not_found),
		TEST(removing_what_is_not_held_does_nothing),
		TEST(the_first_from_a_tag_on_skips_gaps),
		TEST(tags_are_not_used_again),
		TEST(one_held_for_ever_costs_one_slot),
		TEST(a_wide_gap_is_passed_at_once),
		TEST(the_room_of_what_was_last_is_used_again),
		TEST(random_use_agrees_with_a_plain_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
