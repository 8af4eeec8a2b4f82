#include "check.h"

#include "base/duration.h"

TEST_THAT(durations_are_read_as_people_write_them)
{
	static const struct {
		const char *text;
		int64_t ms;
	} cases[] = {
		{ "0", 0 },
		{ "250", 250 },
		{ "250ms", 250 },
		{ "30s", 30000 },
		{ "5m", 300000 },
		{ "2h", 7200000 },
		{ "1d", 86400000 },
		{ "007s", 7000 },
		{ "3660d", DURATION_MAX_MS },
		{ "316224000000", DURATION_MAX_MS },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		int64_t ms = -1;
		assert_int_equal(duration_parse(slice_from(cases[i].text), &ms), TIDE_OK);
		assert_int_equal(ms, cases[i].ms);
	}
}

TEST_THAT(what_is_no_duration_is_refused)
{
	static const char *const wrong[] = {
		"",
		"s",
		"ms",
		"-1s",
		"+1s",
		"1.5s",
		"1 s",
		" 1s",
		"1s ",
		"1S",
		"1sec",
		"1w",
		"1m30s",
		"1e3",
		"0x10s",
		"3661d",
		"316224000001",
		"99999999999999999999d",
		"18446744073709551617ms",
	};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		int64_t ms = -1;
		if (duration_parse(slice_from(wrong[i]), &ms) != TIDE_ESYNTAX)
			fail_msg("'%s' was taken", wrong[i]);
		assert_int_equal(ms, -1);
	}
}

TEST_THAT(the_shortest_exact_spelling_is_written)
{
	static const struct {
		int64_t ms;
		const char *text;
	} cases[] = {
		{ 0, "0s" },
		{ 1, "1ms" },
		{ 999, "999ms" },
		{ 1500, "1500ms" },
		{ 90000, "90s" },
		{ 60000, "1m" },
		{ 3600000, "1h" },
		{ 129600000, "36h" },
		{ 86400000, "1d" },
		{ DURATION_MAX_MS, "3660d" },
		{ -1500, "-1500ms" },
		{ INT64_MAX, "9223372036854775807ms" },
		{ INT64_MIN, "-9223372036854775808ms" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[DURATION_TEXT_MAX];
		duration_format(cases[i].ms, text);
		assert_string_equal(text, cases[i].text);
	}
}

TEST_THAT(what_is_written_reads_back)
{
	for (int64_t ms = 0; ms < DURATION_MAX_MS; ms = ms * 3 + 7) {
		char text[DURATION_TEXT_MAX];
		int64_t back;
		duration_format(ms, text);
		assert_int_equal(duration_parse(slice_from(text), &back), TIDE_OK);
		assert_int_equal(back, ms);
	}
}

TEST_THAT(a_duration_is_within_limits)
{
	const struct number_limits limits = { 1000, 60000 };
	char range[DURATION_RANGE_MAX];
	int64_t ms = 0;

	assert_true(duration_is_within(SLICE("1m"), limits, &ms));
	assert_int_equal(ms, 60000);
	assert_false(duration_is_within(SLICE("2m"), limits, &ms));
	assert_false(duration_is_within(SLICE("999"), limits, &ms));
	assert_false(duration_is_within(SLICE("soon"), limits, &ms));
	assert_int_equal(ms, 60000);
	assert_string_equal(duration_format_range(limits, range), "from 1s to 1m");
}

RUN_TESTS()
