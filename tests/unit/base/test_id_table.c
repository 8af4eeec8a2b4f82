#include "check.h"

#include "base/id_table.h"

#define IDS 5000

/* Ids as brokers make them: a time, a node, a sequence that begins anew. */
static uint64_t id_of(unsigned i)
{
	return (UINT64_C(1790000000000) + i / 7) << 22 | (i % 7);
}

static void an_empty_table_has_nothing(void **state)
{
	struct id_table t = { 0 };

	assert_null(id_table_find(&t, 0));
	assert_null(id_table_find(&t, 42));
	id_table_remove(&t, 42);
	assert_int_equal(id_table_count(&t), 0);
	id_table_deinit(&t);
}

static void what_was_added_is_found_until_it_is_removed(void **state)
{
	static char things[IDS];
	static bool has[IDS];
	struct id_table t = { 0 };
	uint64_t random = 88172645463325252;
	size_t count = 0;

	/* It grows, then shrinks to nothing, and grows again: never a wrong answer. */
	for (unsigned step = 0; step < 40 * IDS; step++) {
		unsigned i, ebb = step / (10 * IDS) % 2;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		i = (unsigned)(random >> 11) % IDS;
		if (has[i] && (ebb || (random & 3) == 0)) {
			id_table_remove(&t, id_of(i));
			has[i] = false;
			count--;
		} else if (!has[i] && !ebb) {
			id_table_add(&t, id_of(i), &things[i]);
			has[i] = true;
			count++;
		}
		assert_int_equal(id_table_count(&t), count);
		i = (unsigned)(random >> 31) % IDS;
		assert_ptr_equal(id_table_find(&t, id_of(i)), has[i] ? &things[i] : NULL);
	}
	for (unsigned i = 0; i < IDS; i++)
		assert_ptr_equal(id_table_find(&t, id_of(i)), has[i] ? &things[i] : NULL);
	id_table_deinit(&t);
}

static void no_add_moves_more_than_a_few(void **state)
{
	struct id_table t = { 0 };
	size_t before = 0;

	for (unsigned i = 0; i < 100000; i++) {
		size_t left;

		id_table_add(&t, id_of(i), &t);
		left = t.old.count;
		/* A new array was begun, or the old one lost a few. */
		assert_true(left > before || before - left <= 8);
		before = left;
	}
	id_table_deinit(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_table_has_nothing),
		cmocka_unit_test(what_was_added_is_found_until_it_is_removed),
		cmocka_unit_test(no_add_moves_more_than_a_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
