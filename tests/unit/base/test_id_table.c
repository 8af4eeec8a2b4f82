#include "check.h"

#include "base/id_table.h"

#define IDS 5000

/* Ids as brokers make them: a time, a node, a sequence that begins anew. */
static uint64_t id_of(unsigned i)
{
	return (UINT64_C(1790000000000) + i / 7) << 22 | (i % 7);
}

TEST_THAT(an_empty_table_has_nothing)
{
	struct id_table t = { 0 };

	assert_null(id_table_find(&t, 0));
	assert_null(id_table_find(&t, 42));
	id_table_remove(&t, 42);
	assert_int_equal(t.items.count, 0);
	id_table_deinit(&t);
}

TEST_THAT(what_was_added_is_found_until_it_is_removed)
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
		assert_int_equal(t.items.count, count);
		i = (unsigned)(random >> 31) % IDS;
		assert_ptr_equal(id_table_find(&t, id_of(i)), has[i] ? &things[i] : NULL);
	}
	for (unsigned i = 0; i < IDS; i++)
		assert_ptr_equal(id_table_find(&t, id_of(i)), has[i] ? &things[i] : NULL);
	id_table_deinit(&t);
}

TEST_THAT(all_can_be_taken_out_one_by_one)
{
	static char things[IDS];
	struct id_table t = { 0 };
	size_t taken = 0;

	assert_null(id_table_take(&t));
	for (unsigned i = 0; i < IDS; i++)
		id_table_add(&t, id_of(i), &things[i]);
	for (char *thing; (thing = id_table_take(&t)) != NULL; taken++) {
		assert_int_equal(*thing, 0);
		*thing = 1;
		assert_null(id_table_find(&t, id_of((unsigned)(thing - things))));
	}
	assert_int_equal(taken, IDS);
	assert_null(t.items.segments);
	/* Of many each is found at once: this would take minutes. */
	for (unsigned i = 0; i < 400000; i++)
		id_table_add(&t, id_of(i), things);
	for (unsigned i = 0; i < 400000; i++)
		assert_ptr_equal(id_table_take(&t), things);
	assert_int_equal(t.items.count, 0);
}

RUN_TESTS()
