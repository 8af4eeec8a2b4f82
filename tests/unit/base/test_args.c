#include "check.h"

#include <stdio.h>

#include "base/args.h"

static void add_ok(struct args *a, const char *name, const char *value)
{
	assert_int_equal(args_add(a, slice_from(name), slice_from(value)), TIDE_OK);
}

TEST_THAT(options_keep_their_order_and_are_found_by_name)
{
	struct args a = { 0 };
	add_ok(&a, "shards", "4");
	add_ok(&a, "durable", "1");
	add_ok(&a, "empty", "");
	assert_string_equal(a.items[0].name, "shards");
	assert_string_equal(a.items[1].name, "durable");
	assert_string_equal(args_get(&a, "durable"), "1");
	assert_string_equal(args_get(&a, "empty"), "");
	assert_null(args_get(&a, "shard"));
	args_deinit(&a);
	assert_null(args_get(&a, "shards"));
	args_deinit(&a);
}

TEST_THAT(what_is_no_option_is_refused)
{
	struct args a = { 0 };
	add_ok(&a, "x", "1");
	assert_int_equal(args_add(&a, SLICE("x"), SLICE("2")), TIDE_EEXISTS);
	assert_int_equal(args_add(&a, SLICE(""), SLICE("2")), TIDE_ESYNTAX);
	assert_int_equal(args_add(&a, SLICE("a b"), SLICE("2")), TIDE_ESYNTAX);
	assert_int_equal(args_add(&a, SLICE("a=b"), SLICE("2")), TIDE_ESYNTAX);
	assert_int_equal(args_add(&a, SLICE("y"), (struct slice){ "a\0b", 3 }),
			 TIDE_ESYNTAX);
	assert_int_equal(a.count, 1);
	assert_string_equal(args_get(&a, "x"), "1");
	args_deinit(&a);
}

TEST_THAT(there_are_64_options_at_most)
{
	struct args a = { 0 };
	for (int i = 0; i < ARGS_MAX; i++) {
		char name[16];
		snprintf(name, sizeof(name), "o%d", i);
		add_ok(&a, name, "1");
	}
	assert_int_equal(args_add(&a, SLICE("one-more"), SLICE("1")), TIDE_ETOOLONG);
	assert_int_equal(a.count, ARGS_MAX);
	struct buf text = { 0 };
	args_format(&a, &text);
	struct args back;
	assert_int_equal(args_parse(&back, buf_slice(&text)), TIDE_OK);
	assert_int_equal(back.count, ARGS_MAX);
	args_deinit(&back);
	args_deinit(&a);
	buf_deinit(&text);
}

TEST_THAT(the_canonical_text_is_sorted_and_encoded)
{
	struct args a = { 0 };
	struct buf text = { 0 };
	args_format(&a, &text);
	assert_buf(&text, "");
	add_ok(&a, "retry.max", "5");
	add_ok(&a, "retry", "exponential");
	add_ok(&a, "note", "50% of a=b\n");
	args_format(&a, &text);
	assert_buf(&text, "note=50%25%20of%20a=b%0A retry=exponential retry.max=5");
	/* The order in which they were given is not touched. */
	assert_string_equal(a.items[0].name, "retry.max");
	args_sort(&a);
	assert_string_equal(a.items[0].name, "note");
	args_deinit(&a);
	buf_deinit(&text);
}

TEST_THAT(the_canonical_text_reads_back)
{
	struct args a;
	assert_int_equal(args_parse(&a, SLICE("")), TIDE_OK);
	assert_int_equal(a.count, 0);
	assert_int_equal(args_parse(&a, SLICE("a= b=x%20y c=k=v")), TIDE_OK);
	assert_int_equal(a.count, 3);
	assert_string_equal(args_get(&a, "a"), "");
	assert_string_equal(args_get(&a, "b"), "x y");
	assert_int_equal(a.items[1].value_len, 3);
	assert_string_equal(args_get(&a, "c"), "k=v");
	args_deinit(&a);
}

TEST_THAT(text_that_no_format_wrote_is_refused)
{
	static const char *const wrong[] = {
		"a",     "=1",      " a=1",  "a=1 ",   "a=1  b=2", "a=1 a=2",
		"a=%zz", "a=1 b=%", "a=%00", "a\tb=1", " ",
	};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct args a;
		if (args_parse(&a, slice_from(wrong[i])) != TIDE_ESYNTAX)
			fail_msg("'%s' was taken", wrong[i]);
		assert_int_equal(a.count, 0);
		assert_null(a.items);
	}
}

TEST_THAT(a_copy_has_its_own_strings)
{
	struct args a = { 0 }, b;
	add_ok(&a, "x", "1");
	add_ok(&a, "w", "2");
	args_copy(&b, &a);
	args_deinit(&a);
	assert_int_equal(b.count, 2);
	assert_string_equal(b.items[0].name, "x");
	assert_string_equal(args_get(&b, "w"), "2");
	args_deinit(&b);
}

RUN_TESTS()
