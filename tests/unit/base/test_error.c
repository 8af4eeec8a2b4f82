#include "check.h"

#include <errno.h>

#include "base/error.h"

TEST_THAT(every_error_has_a_wire_code_of_its_own_and_a_text)
{
	static const struct {
		int code;
		const char *wire;
	} errors[] = {
#define X(name, number, code, text) { name, code },
		TIDE_ERRORS(X)
#undef X
	};
	for (size_t i = 0; i < COUNT(errors); i++) {
		assert_string_equal(error_wire_code(errors[i].code), errors[i].wire);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(errors[k].wire, errors[i].wire);
		assert_true(strlen(error_text(errors[i].code)) > 0);
	}
}

TEST_THAT(errors_without_a_word_are_shown_as_their_nearest)
{
	assert_string_equal(error_wire_code(-ECONNREFUSED), "store");
	assert_string_equal(error_wire_code(-4095), "store");
	assert_string_equal(error_wire_code(TIDE_EMPTY), "not-found");
	assert_string_equal(error_wire_code(TIDE_AGAIN), "busy");
}

TEST_THAT(every_number_has_a_text)
{
	assert_string_equal(error_text(-ECONNREFUSED), "Connection refused");
	assert_string_equal(error_text(-4095), "end of file");
	assert_string_equal(error_text(-3008), "the host name cannot be resolved");
	assert_string_equal(error_text(TIDE_OK), "no error");
	static const int strange[] = { 1, -4000, -9999, INT32_MIN, INT32_MAX };
	for (size_t i = 0; i < COUNT(strange); i++)
		assert_string_equal(error_text(strange[i]), "unknown error");
}

TEST_THAT(set_fills_and_returns_the_code)
{
	struct error err;
	assert_int_equal(error_set(&err, TIDE_EFULL, "queue '%s' has %d", "jobs", 7),
			 TIDE_EFULL);
	assert_int_equal(err.code, TIDE_EFULL);
	assert_string_equal(err.text, "queue 'jobs' has 7");
}

TEST_THAT(control_characters_become_spaces)
{
	struct error err;
	error_set(&err, TIDE_ERULE, "%s", "a\r\nOK\tb\x7f\x1b[0m");
	assert_string_equal(err.text, "a  OK b  [0m");
}

TEST_THAT(an_error_may_wrap_its_own_text)
{
	struct error err;
	error_set(&err, TIDE_ERULE, "line 3");
	error_set(&err, err.code, "a.lua: %s", err.text);
	assert_string_equal(err.text, "a.lua: line 3");
}

TEST_THAT(a_long_text_is_cut_between_characters)
{
	char text[2 * ERROR_TEXT_MAX];
	struct error err;
	/* Two-byte characters behind an odd number of bytes end in the middle. */
	for (size_t odd = 0; odd < 2; odd++) {
		memset(text, 'x', sizeof(text));
		for (size_t i = odd; i + 2 < sizeof(text); i += 2)
			memcpy(text + i, "\xc3\xa9", 2);
		text[sizeof(text) - 1] = '\0';
		error_set(&err, TIDE_ERULE, "%s", text);
		assert_true(slice_is_utf8(slice_from(err.text)));
		assert_in_range(strlen(err.text), ERROR_TEXT_MAX - 2, ERROR_TEXT_MAX - 1);
	}
}

TEST_THAT(nobody_has_to_want_the_text)
{
	assert_int_equal(error_set(NULL, TIDE_EBUSY, "%d", 1), TIDE_EBUSY);
}

RUN_TESTS()
