#include "check.h"

#include "base/duration.h"

static struct position read(const char *text)
{
	struct position p = { 0 };
	struct error err;

	if (position_parse(slice_from(text), &p, &err) < 0)
		fail_msg("'%s': %s", text, err.text);
	return p;
}

TEST_THAT(words_and_offsets_are_read)
{
	assert_int_equal(read("first").kind, POSITION_FIRST);
	assert_int_equal(read("last").kind, POSITION_LAST);
	assert_int_equal(read("last").offset, 0);
	assert_int_equal(read("last-20").kind, POSITION_LAST);
	assert_int_equal(read("last-20").offset, 20);
	assert_int_equal(read("committed").kind, POSITION_COMMITTED);
	assert_int_equal(read("0").kind, POSITION_OFFSET);
	assert_int_equal(read("1234").offset, 1234);
	assert_int_equal(read("9007199254740992").offset, POSITION_OFFSET_MAX);
}

TEST_THAT(times_are_utc)
{
	static const struct {
		const char *text;
		int64_t ms;
	} cases[] = {
		{ "1970-01-01", 0 },
		{ "1970-01-01T00:00:01Z", 1000 },
		{ "2026-11-23T10:00:00Z", INT64_C(1795428000000) },
		{ "2026-11-23T10:00:00.250Z", INT64_C(1795428000250) },
		{ "2024-02-29", INT64_C(1709164800000) },
		{ "@0", 0 },
		{ "@1795428000000", INT64_C(1795428000000) },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct position p = read(cases[i].text);

		assert_int_equal(p.kind, POSITION_TIME);
		assert_int_equal(p.ms, cases[i].ms);
		assert_int_equal(position_time(&p, 5), cases[i].ms);
	}
}

TEST_THAT(a_duration_is_that_long_ago)
{
	struct position p = read("90m");

	assert_int_equal(p.kind, POSITION_AGO);
	assert_int_equal(p.ms, 5400000);
	assert_int_equal(position_time(&p, 5400007), 7);
	assert_int_equal(position_time(&p, 7), 0);
	assert_int_equal(read("250ms").ms, 250);
}

TEST_THAT(what_is_no_position_is_refused)
{
	static const char *const wrong[] = {
		"",
		"First",
		"-1",
		"1.5",
		"9007199254740993",
		"@",
		"@x",
		"@-1",
		"last-",
		"last--1",
		"last-1m",
		"2026-11-23T10:00Z",
		"2026-11-23T10:00:00",
		"2026-11-23T10:00:00+01:00",
		"2026-11-23T24:00:00Z",
		"2026-11-23T10:00:60Z",
		"2026-11-23T10:00:00.5Z",
		"2026-02-30",
		"2025-02-29",
		"2026-13-01",
		"2026-00-01",
		"2026-11-00",
		"2026-1-1",
		"1969-12-31",
		"20261123T100000Z",
		"m",
		"1w",
		"1m30s",
	};

	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct position p;
		struct error err;

		if (position_parse(slice_from(wrong[i]), &p, &err) != TIDE_ESYNTAX)
			fail_msg("'%s' was taken", wrong[i]);
	}
}

RUN_TESTS()
