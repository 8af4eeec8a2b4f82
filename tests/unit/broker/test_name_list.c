#include "check.h"

#include "broker/name_list.h"

static bool is_list(const char *text)
{
	return name_list_is(slice_from(text));
}

static void names_are_separated_by_single_commas(void **state)
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

static void each_name_stands_once(void **state)
{
	assert_false(is_list("a,b,a"));
	assert_true(is_list("a,aa,ab"));
}

static void a_list_has_its_names_alone(void **state)
{
	assert_true(name_list_has(SLICE("ab,c"), SLICE("c")));
	assert_true(name_list_has(SLICE("ab,c"), SLICE("ab")));
	assert_false(name_list_has(SLICE("ab,c"), SLICE("a")));
	assert_false(name_list_has(SLICE(""), SLICE("a")));
}

static void the_order_does_not_count(void **state)
{
	assert_true(name_list_is_same(SLICE("a,b,c"), SLICE("c,a,b")));
	assert_true(name_list_is_same(SLICE(""), SLICE("")));
	assert_false(name_list_is_same(SLICE("a,b"), SLICE("a,c")));
	assert_false(name_list_is_same(SLICE("a"), SLICE("a,b")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_separated_by_single_commas),
		cmocka_unit_test(each_name_stands_once),
		cmocka_unit_test(a_list_has_its_names_alone),
		cmocka_unit_test(the_order_does_not_count),
	};
	return cmocka_run_group_tests_name("base/name_list", tests, NULL, NULL);
}
