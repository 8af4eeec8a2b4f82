#include "check.h"

#include "broker/name_list.h"

static bool is_list(const char *text)
{
	return name_list_is(slice_from(text));
}

TEST_THAT(names_are_separated_by_single_commas)
{
	assert_true(is_list(""));
	assert_true(is_list("a"));
	assert_true(is_list("a,b"));
	assert_false(is_list(","));
	assert_false(is_list("a,"));
	assert_false(is_list(",a"));
	assert_false(is_list("a,,b"));
	assert_false(is_list("a, b"));
}

TEST_THAT(each_name_stands_once)
{
	assert_false(is_list("a,b,a"));
	assert_true(is_list("a,aa,ab"));
}

TEST_THAT(a_list_has_its_names_alone)
{
	assert_true(name_list_has(SLICE("ab,c"), SLICE("c")));
	assert_true(name_list_has(SLICE("ab,c"), SLICE("ab")));
	assert_false(name_list_has(SLICE("ab,c"), SLICE("a")));
	assert_false(name_list_has(SLICE(""), SLICE("a")));
}

TEST_THAT(the_order_does_not_count)
{
	assert_true(name_list_is_same(SLICE("a,b,c"), SLICE("c,a,b")));
	assert_true(name_list_is_same(SLICE(""), SLICE("")));
	assert_false(name_list_is_same(SLICE("a,b"), SLICE("a,c")));
	assert_false(name_list_is_same(SLICE("a"), SLICE("a,b")));
}

RUN_TESTS()
