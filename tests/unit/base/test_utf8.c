#include "check.h"

#include "base/utf8.h"

TEST_THAT(a_character_is_decoded_to_its_code_point)
{
	static const struct {
		const char *text;
		uint32_t point;
	} cases[] = {
		{ "a", 'a' },
		{ "\xc3\xa9", 0xe9 },
		{ "\xe2\x82\xac", 0x20ac },
		{ "\xf0\x9f\x8c\x8a", 0x1f30a },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		uint32_t point = 0;
		size_t len = strlen(cases[i].text);
		assert_int_equal(utf8_decode(cases[i].text, len, &point), len);
		assert_int_equal(point, cases[i].point);
		assert_int_equal(utf8_decode(cases[i].text, len - 1, &point), 0);
	}
	uint32_t zero = 1;
	assert_int_equal(utf8_decode("\0", 1, &zero), 1);
	assert_int_equal(zero, 0);
}

TEST_THAT(only_a_cut_character_at_the_end_is_dropped)
{
	static const struct {
		const char *text;
		size_t whole;
	} cases[] = {
		{ "", 0 },
		{ "abc", 3 },
		{ "ab\xc3", 2 },
		{ "ab\xc3\xa9", 4 },
		{ "ab\xe2\x82", 2 },
		{ "ab\xe2\x82\xac", 5 },
		{ "ab\xf0\x9f\x8c", 2 },
		{ "\xf0", 0 },
		/* Not UTF-8 in the first place: nothing was cut. */
		{ "ab\xff", 3 },
		{ "\x80\x80\x80\x80\x80", 5 },
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_int_equal(utf8_whole(cases[i].text, strlen(cases[i].text)),
				 cases[i].whole);
}

RUN_TESTS()
