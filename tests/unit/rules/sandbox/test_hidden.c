#include "check.h"

#include <stdio.h>

#include "rules/sandbox/hints.h"

TEST_THAT(a_short_secret_is_shown_when_all_of_it_is)
{
	assert_true(hidden_is_shown(SLICE("abc"), SLICE("xxabcxx")));
	assert_false(hidden_is_shown(SLICE("abc"), SLICE("xxabxcx")));
	assert_true(hidden_is_shown(SLICE("twelve bytes"), SLICE("twelve bytes")));
	assert_false(hidden_is_shown(SLICE("twelve bytes"), SLICE("welve bytes")));
	assert_false(hidden_is_shown(SLICE(""), SLICE("anything")));
}

TEST_THAT(a_long_secret_is_shown_when_a_part_of_it_is)
{
	struct slice secret = SLICE("correct horse battery staple");
	assert_true(hidden_is_shown(secret, SLICE("wrong: horse battery!")));
	assert_false(hidden_is_shown(secret, SLICE("wrong:horse batte!")));
	assert_false(hidden_is_shown(secret, SLICE("horse")));
}

/* Nothing behind it reaches a line. */
TEST_THAT(only_the_front_of_a_text_counts)
{
	char text[HIDDEN_LINE_MAX + 16];
	memset(text, '.', sizeof(text));
	memcpy(text + HIDDEN_LINE_MAX - 4, "secret", 6);
	struct slice all = { text, sizeof(text) };
	assert_false(hidden_is_shown(SLICE("secret"), all));
	assert_true(hidden_is_shown(SLICE("secr"), all));
}

TEST_THAT(a_list_keeps_the_newest)
{
	static struct hidden h;
	char text[32];
	assert_false(hidden_is_in(NULL, SLICE("x")));
	hidden_add(&h, SLICE(""));
	assert_int_equal(h.count, 0);
	for (int i = 0; i <= HIDDEN_MAX; i++) {
		snprintf(text, sizeof(text), "<%d>", i);
		hidden_add(&h, slice_from(text));
		hidden_add(&h, slice_from(text));
	}
	assert_int_equal(h.count, HIDDEN_MAX);
	assert_false(hidden_is_in(&h, SLICE("a <0>")));
	assert_true(hidden_is_in(&h, SLICE("a <1>")));
	assert_true(hidden_is_in(&h, slice_from(text)));
	hidden_deinit(&h);
	assert_false(hidden_is_in(&h, SLICE("a <1>")));
}

RUN_TESTS()
