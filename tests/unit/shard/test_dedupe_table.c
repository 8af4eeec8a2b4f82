#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "shard/publish_ids.h"

static struct dedupe_table table;
static uint64_t messages; /* the last one */

static int setup(void **state)
{
	dedupe_table_init(&table, DEDUPE_TABLE_MESSAGES);
	return 0;
}

static int teardown(void **state)
{
	struct dedupe_record *r;

	while ((r = dedupe_table_oldest(&table)) != NULL ||
	       (r = TAILQ_FIRST(&table.leaving)) != NULL)
		dedupe_table_remove(&table, r);
	assert_int_equal(table.messages.items.count, 0);
	return 0;
}

static struct dedupe_key key_of(const char *id, unsigned copy)
{
	return (struct dedupe_key){ slice_from(id), copy };
}

static struct dedupe_record *find(const char *id, unsigned copy)
{
	struct dedupe_key key = key_of(id, copy);

	return dedupe_table_find(&table, &key);
}

static struct dedupe_record *add(const char *id, unsigned copy)
{
	struct dedupe_key key = key_of(id, copy);

	return dedupe_table_add(&table, &key, ++messages, false);
}

TEST_THAT(what_was_added_is_found)
{
	struct dedupe_record *r;

	assert_null(find("a", 0));
	r = add("a", 0);
	assert_ptr_equal(find("a", 0), r);
	assert_slice(dedupe_record_id(r), "a");
	assert_null(find("b", 0));
	assert_null(find("aa", 0));
}

TEST_THAT(a_copy_is_another_one)
{
	struct dedupe_record *message = add("a", 0), *copy = add("a", 1);

	assert_ptr_equal(find("a", 0), message);
	assert_ptr_equal(find("a", 1), copy);
	assert_null(find("a", 2));
	assert_int_equal(copy->copy, 1);
}

TEST_THAT(one_that_leaves_is_found_by_its_message_alone)
{
	struct dedupe_record *first = add("a", 0), *second;

	assert_ptr_equal(dedupe_table_of_message(&table, first->msg_id), first);
	dedupe_table_leave(&table, first);
	assert_null(find("a", 0));
	assert_int_equal(table.records.count, 0);
	second = add("a", 0);
	assert_ptr_equal(find("a", 0), second);
	assert_ptr_equal(dedupe_table_of_message(&table, first->msg_id), first);
	assert_ptr_equal(dedupe_table_of_message(&table, second->msg_id), second);
	dedupe_table_remove(&table, first);
	assert_ptr_equal(find("a", 0), second);
}

TEST_THAT(ids_are_bytes)
{
	struct dedupe_key one = { { "a\0b", 3 }, 0 }, other = { { "a\0c", 3 }, 0 };
	struct dedupe_record *r = dedupe_table_add(&table, &one, 7, false);

	assert_ptr_equal(dedupe_table_find(&table, &one), r);
	assert_null(dedupe_table_find(&table, &other));
	assert_null(find("a", 0));
}

TEST_THAT(the_oldest_is_the_one_that_was_added_first)
{
	struct dedupe_record *a = add("a", 0), *b = add("b", 0), *c = add("c", 0);

	assert_ptr_equal(dedupe_table_oldest(&table), a);
	dedupe_table_remove(&table, b);
	dedupe_table_remove(&table, a);
	assert_ptr_equal(dedupe_table_oldest(&table), c);
	dedupe_table_remove(&table, c);
	assert_null(dedupe_table_oldest(&table));
	assert_null(table.records.segments);
	assert_int_equal(table.records.count, 0);
	add("a", 0);
	assert_non_null(find("a", 0));
}

/* ---- against a model ----------------------------------------------------------------
 */

#define IDS 6000

static struct dedupe_record *model[IDS];

static const char *id_text(unsigned i)
{
	static char text[32];

	snprintf(text, sizeof(text), "order-%u-%.*s", i, (int)(i % 9), "xxxxxxxxx");
	return text;
}

static void check_all(void)
{
	const struct dedupe_record *r;
	size_t count = 0;

	for (unsigned i = 0; i < IDS; i++) {
		assert_ptr_equal(find(id_text(i), i % 3), model[i]);
		count += model[i] != NULL;
	}
	assert_int_equal(table.records.count, count);
	TAILQ_FOREACH (r, &table.ages, age_link)
		count--;
	assert_int_equal(count, 0);
	assert_true(table.records.buckets <= 2 * table.records.count + 64);
}

TEST_THAT(it_holds_what_a_model_holds)
{
	srand(1);
	memset(model, 0, sizeof(model));
	for (unsigned step = 0; step < 60000; step++) {
		unsigned i = (unsigned)rand() % IDS;
		/* Waves, so that it grows and shrinks. */
		bool is_flood = step / 10000 % 2 == 0;

		if (model[i] && (!is_flood || rand() % 4 == 0)) {
			dedupe_table_remove(&table, model[i]);
			model[i] = NULL;
		} else if (!model[i] && (is_flood || rand() % 4 == 0)) {
			model[i] = add(id_text(i), i % 3);
		}
		if (step % 5000 == 0)
			check_all();
	}
	check_all();
	while (table.records.count > 0)
		dedupe_table_remove(&table, dedupe_table_oldest(&table));
	assert_null(table.records.segments);
}

TEST_THAT(chains_stay_short)
{
	size_t longest = 0, length;

	for (unsigned i = 0; i < 50000; i++)
		add(id_text(i), 0);
	for (size_t i = 0; i < table.records.buckets; i++) {
		const struct growing_item *r = table.records.segments[i / 64][i % 64];

		for (length = 0; r; r = r->chain)
			length++;
		if (length > longest)
			longest = length;
	}
	assert_in_range(longest, 1, 16);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
