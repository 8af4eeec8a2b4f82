#include "check.h"

#include "base/user_pattern.h"

static bool matches(const char *pattern, const char *name)
{
	struct user_pattern p = { 0 };
	struct error err = { 0 };
	bool is_match;

	assert_int_equal(user_pattern_init(&p, slice_from(pattern), &err), TIDE_OK);
	assert_string_equal(p.text, pattern);
	is_match = user_pattern_matches(&p, slice_from(name));
	user_pattern_deinit(&p);
	return is_match;
}

TEST_THAT(a_pattern_is_not_anchored)
{
	assert_true(matches("orders", "my-orders-2"));
	assert_true(matches("^orders", "orders.eu"));
	assert_false(matches("^orders", "my-orders"));
	assert_true(matches("^(a|b)[.]c{2}$", "b.cc"));
	assert_false(matches("^(a|b)[.]c{2}$", "b.c"));
}

TEST_THAT(an_empty_pattern_matches_nothing)
{
	assert_false(matches("", "orders"));
	assert_false(matches("", ""));
	assert_true(matches(".*", "orders"));
	assert_true(matches(".*", ""));
	assert_true(matches("^$", ""));
	assert_false(matches("^$", "a"));
}

TEST_THAT(no_more_than_the_name_is_looked_at)
{
	struct user_pattern p = { 0 };
	struct error err;

	assert_int_equal(user_pattern_init(&p, SLICE("^ab$"), &err), TIDE_OK);
	assert_true(user_pattern_matches(&p, (struct slice){ "abc", 2 }));
	assert_false(user_pattern_matches(&p, (struct slice){ "abc", 3 }));
	user_pattern_deinit(&p);
}

static void assert_refused(struct slice pattern, const char *why)
{
	struct user_pattern p = { 0 };
	struct error err = { 0 };

	assert_true(user_pattern_init(&p, pattern, &err) < 0);
	assert_string_equal(err.text, why);
	assert_null(p.text);
	user_pattern_deinit(&p);
}

TEST_THAT(what_is_no_pattern_or_too_costly_is_refused)
{
	char longest[USER_PATTERN_MAX + 1];

	memset(longest, 'a', sizeof(longest));
	assert_refused(SLICE("(a"), "the pattern '(a' is no regular expression: "
				    "Unmatched ( or \\(");
	assert_refused(SLICE("(.*)\\1"),
		       "the pattern '(.*)\\1' has a back-reference; it may not");
	assert_refused(SLICE("((a{1,99}){1,99}){9}"),
		       "the pattern '((a{1,99}){1,99}){9}' repeats too much with {}");
	assert_refused(SLICE("a{99999999999999999999}"),
		       "the pattern 'a{99999999999999999999}' repeats too much with {}");
	assert_refused(SLICE("\xff"), "the pattern '\xff' is not valid UTF-8 text");
	assert_refused(SLICE("a\0b"), "the pattern 'a' is not valid UTF-8 text");
	assert_refused((struct slice){ longest, sizeof(longest) },
		       "a pattern of 1025 bytes is over the limit of 1024");
	assert_true(matches("a{3,9}", "aaa"));
	assert_true(matches("\\\\1", "\\1"));
}

RUN_TESTS()
