#include "check.h"

#include "base/percent.h"

TEST_THAT(only_what_cannot_stand_in_a_word_is_encoded)
{
	static const struct {
		const char *value;
		const char *coded;
	} cases[] = {
		{ "", "" },
		{ "gold", "gold" },
		{ "a b", "a%20b" },
		{ "100%", "100%25" },
		{ "\r\n\t\x01\x7f", "%0D%0A%09%01%7F" },
		{ "k=v&x;~!", "k=v&x;~!" },
		{ "caf\xc3\xa9", "caf\xc3\xa9" },
		{ "\xff\x80", "\xff\x80" },
		{ "%20", "%2520" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf out = { 0 };
		percent_encode(&out, slice_from(cases[i].value));
		assert_buf(&out, cases[i].coded);
		assert_int_equal(percent_encoded_len(slice_from(cases[i].value)),
				 buf_len(&out));
		buf_deinit(&out);
	}
}

TEST_THAT(any_bytes_read_back)
{
	char bytes[256], back[3 * 256];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)i;
	struct buf coded = { 0 };
	percent_encode(&coded, (struct slice){ bytes, sizeof(bytes) });
	size_t len = 0;
	assert_int_equal(percent_decode(buf_slice(&coded), back, &len), TIDE_OK);
	assert_int_equal(len, sizeof(bytes));
	assert_memory_equal(back, bytes, len);
	/* And in its own place. */
	assert_int_equal(percent_decode(buf_slice(&coded), coded.data, &len), TIDE_OK);
	assert_int_equal(len, sizeof(bytes));
	assert_memory_equal(coded.data, bytes, len);
	buf_deinit(&coded);
}

TEST_THAT(both_cases_of_hex_are_read)
{
	char out[8];
	size_t len;
	assert_int_equal(percent_decode(SLICE("%c3%C3+"), out, &len), TIDE_OK);
	assert_int_equal(len, 3);
	assert_memory_equal(out, "\xc3\xc3+", 3);
}

TEST_THAT(a_percent_sign_without_two_digits_is_an_error)
{
	static const char *const wrong[] = { "%",   "%2",   "a%",   "a%2", "%zz",
					     "%2x", "%%20", "% 20", "%-1" };
	for (size_t i = 0; i < COUNT(wrong); i++) {
		char out[8];
		size_t len = 4711;
		assert_int_equal(percent_decode(slice_from(wrong[i]), out, &len),
				 TIDE_ESYNTAX);
		assert_int_equal(len, 4711);
	}
}

RUN_TESTS()
