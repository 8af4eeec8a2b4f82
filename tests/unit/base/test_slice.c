#include "check.h"

TEST_THAT(numbers_are_decimal_digits_within_the_limit)
{
	static const struct {
		const char *text;
		uint64_t max;
		bool ok;
		uint64_t n;
	} cases[] = {
		{ "0", 0, true, 0 },
		{ "1", 0, false, 0 },
		{ "255", 255, true, 255 },
		{ "256", 255, false, 0 },
		{ "0007", 9, true, 7 },
		{ "18446744073709551615", UINT64_MAX, true, UINT64_MAX },
		{ "18446744073709551616", UINT64_MAX, false, 0 },
		{ "99999999999999999999999", UINT64_MAX, false, 0 },
		{ "", 9, false, 0 },
		{ "-1", 9, false, 0 },
		{ "+1", 9, false, 0 },
		{ " 1", 9, false, 0 },
		{ "1 ", 9, false, 0 },
		{ "0x1", 99, false, 0 },
		{ "1.0", 99, false, 0 },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		uint64_t n = 4711;
		bool ok = slice_to_uint(slice_from(cases[i].text), cases[i].max, &n);
		if (ok != cases[i].ok)
			print_message("case '%s'\n", cases[i].text);
		assert_int_equal(ok, cases[i].ok);
		assert_int_equal(n, ok ? cases[i].n : 4711);
	}
}

TEST_THAT(names_hold_no_white_space_and_no_control_character)
{
	static const struct {
		const char *text;
		bool ok;
	} cases[] = {
		{ "a", true },
		{ "eu.orders.#", true },
		{ "-", true },
		{ "!~", true },
		{ "caf\xc3\xa9", true },
		{ "\xe6\xbd\xae", true },
		{ "\xf0\x9f\x8c\x8a", true },
		{ "", false },
		{ "a b", false },
		{ "a\tb", false },
		{ "a\r", false },
		{ "a\x7f", false },
		{ "a\x1b[0m", false },
		{ "a\xc2\x85", false },     /* next line, a C1 control */
		{ "a\xc2\xa0", false },     /* no-break space */
		{ "a\xe2\x80\x83", false }, /* em space */
		{ "a\xe3\x80\x80", false }, /* ideographic space */
		{ "a\xff", false },
		{ "a\xc3", false },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (slice_is_name(slice_from(cases[i].text)) != cases[i].ok)
			fail_msg("case %zu: '%s'", i, cases[i].text);
	}
	assert_false(slice_is_name((struct slice){ "a\0b", 3 }));
}

/* They are looked at eight bytes at a time. */
TEST_THAT(a_name_is_checked_at_every_place)
{
	char text[24];

	for (size_t len = 1; len <= sizeof(text); len++)
		for (size_t at = 0; at < len; at++)
			for (int c = 0; c < 256; c++) {
				memset(text, 'x', len);
				text[at] = (char)c;
				assert_int_equal(
					slice_is_name((struct slice){ text, len }),
					c > ' ' && c < 0x7f);
			}
}

TEST_THAT(a_name_has_255_bytes_at_most)
{
	char text[256];
	memset(text, 'x', sizeof(text));
	assert_true(slice_is_name((struct slice){ text, 255 }));
	assert_false(slice_is_name((struct slice){ text, 256 }));
}

TEST_THAT(utf8_is_checked_strictly)
{
	static const struct {
		const char *text;
		bool ok;
	} cases[] = {
		{ "", true },
		{ "plain", true },
		{ "\xc2\x80", true },
		{ "\xed\x9f\xbf", true },
		{ "\xee\x80\x80", true },
		{ "\xf4\x8f\xbf\xbf", true },
		{ "\x80", false },             /* no lead byte */
		{ "\xc0\x80", false },         /* overlong zero */
		{ "\xc1\xbf", false },         /* overlong */
		{ "\xe0\x9f\xbf", false },     /* overlong */
		{ "\xf0\x8f\xbf\xbf", false }, /* overlong */
		{ "\xed\xa0\x80", false },     /* surrogate */
		{ "\xf4\x90\x80\x80", false }, /* above U+10FFFF */
		{ "\xf5\x80\x80\x80", false },
		{ "\xe2\x82", false }, /* cut */
		{ "\xe2\x28\xa1", false },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (slice_is_utf8(slice_from(cases[i].text)) != cases[i].ok)
			fail_msg("case %zu", i);
	}
	assert_true(slice_is_utf8((struct slice){ NULL, 0 }));
}

TEST_THAT(utf8_is_checked_at_every_place)
{
	char text[40];
	for (size_t len = 1; len <= sizeof(text); len++) {
		for (size_t at = 0; at < len; at++) {
			memset(text, 'a', sizeof(text));
			assert_true(slice_is_utf8((struct slice){ text, len }));
			text[at] = '\0';
			assert_true(slice_is_utf8((struct slice){ text, len }));
			text[at] = (char)0xc3;
			assert_false(slice_is_utf8((struct slice){ text, len }));
			if (at + 1 == len)
				continue;
			text[at + 1] = (char)0xa4;
			assert_true(slice_is_utf8((struct slice){ text, len }));
		}
	}
}

TEST_THAT(slices_are_equal_by_their_bytes)
{
	assert_true(slice_is_equal(SLICE(""), (struct slice){ NULL, 0 }));
	assert_true(slice_is(SLICE("abc"), "abc"));
	assert_false(slice_is(SLICE("abc"), "ab"));
	assert_false(slice_is((struct slice){ "a\0b", 3 }, "a"));
	assert_true(slice_has_prefix(SLICE("h:tier"), "h:"));
	assert_false(slice_has_prefix(SLICE("h"), "h:"));
	assert_slice(slice_skip(SLICE("h:tier"), 2), "tier");
}

TEST_THAT(a_share_is_a_percentage)
{
	static const struct {
		const char *text;
		double share;
	} cases[] = { { "10%", 0.1 },
		      { "10", 0.1 },
		      { "100%", 1 },
		      { "0.5%", 0.005 },
		      { "99.999999", 0.99999999 },
		      { "0%", -1 },
		      { "", -1 },
		      { "%", -1 },
		      { "5.", -1 },
		      { "101%", -1 },
		      { "100.1%", -1 },
		      { "1.0000001", -1 },
		      { "-1", -1 },
		      { "1%%", -1 },
		      { "x", -1 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double share = -1;
		bool is_share = slice_to_share(slice_from(cases[i].text), &share);

		assert_int_equal(is_share, cases[i].share > 0);
		if (is_share)
			assert_float_equal(share, cases[i].share, 1e-12);
	}
}

TEST_THAT(a_number_may_have_a_minus)
{
	int64_t n = 7;

	assert_true(slice_to_int(SLICE("-3"), -3, 5, &n));
	assert_int_equal(n, -3);
	assert_true(slice_to_int(SLICE("5"), -3, 5, &n));
	assert_int_equal(n, 5);
	assert_false(slice_to_int(SLICE("-4"), -3, 5, &n));
	assert_false(slice_to_int(SLICE("6"), -3, 5, &n));
	assert_false(slice_to_int(SLICE("--3"), -3, 5, &n));
	assert_false(slice_to_int(SLICE("-"), -3, 5, &n));
	assert_false(slice_to_int(SLICE(""), -3, 5, &n));
	assert_int_equal(n, 5);
}

TEST_THAT(a_word_is_one_of_a_list)
{
	unsigned index;

	assert_true(slice_is_listed(SLICE("b"), "a b"));
	assert_false(slice_is_listed(SLICE("c"), "a b"));
	assert_false(slice_is_listed(SLICE("b"), NULL));
	assert_true(slice_is_choice(SLICE("other"), "this, that or other", &index));
	assert_int_equal(index, 2);
	assert_true(slice_is_choice(SLICE("this"), "this, that or other", &index));
	assert_int_equal(index, 0);
	assert_false(slice_is_choice(SLICE("or"), "this, that or other", &index));
	assert_false(slice_is_choice(SLICE("this,"), "this, that or other", &index));
}

RUN_TESTS()
