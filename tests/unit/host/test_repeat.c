#include "check.h"

#include <string.h>

#include "host/log.h"

static struct repeats all;

static int reset(void **state)
{
	memset(&all, 0, sizeof(all));
	return 0;
}

/* How many of `count` lines are written. */
static int say(const char *format, int count, int64_t mono_ms)
{
	int written = 0;

	for (int i = 0; i < count; i++) {
		struct repeat *r = repeat_count(&all, format, mono_ms);

		if (repeat_is_withheld(r))
			continue;
		written++;
		if (r)
			repeat_keep(r, 1, format);
	}
	return written;
}

TEST_WITH(ten_of_a_line_are_written_in_ten_seconds, reset, NULL)
{
	static const char one[] = "one", other[] = "other";

	assert_int_equal(say(one, 9, 1000), 9);
	assert_int_equal(say(other, 3, 1000), 3);
	assert_int_equal(say(one, 9, 10999), 1);
	assert_int_equal(say(other, 7, 10999), 7);
	assert_int_equal(all.due_ms, 11000);
}

TEST_WITH(the_end_of_the_period_tells_how_many_were_held_back, reset, NULL)
{
	static const char line[] = "line";
	struct repeat r;

	assert_int_equal(say(line, 1000, 1000), 10);
	assert_false(repeat_take(&all, 10999, false, &r));
	assert_true(repeat_take(&all, 11000, false, &r));
	assert_string_equal(r.text, "line");
	assert_int_equal(r.level, 1);
	assert_int_equal(r.count, 1000);
	assert_int_equal(all.due_ms, 0);
	assert_false(repeat_take(&all, 99000, false, &r));
	assert_int_equal(say(line, 11, 11000), 10);
	assert_int_equal(all.due_ms, 21000);
}

TEST_WITH(what_was_never_held_back_starts_anew_silently, reset, NULL)
{
	static const char line[] = "line";
	struct repeat r;

	assert_int_equal(say(line, 10, 1000), 10);
	assert_false(repeat_take(&all, 20000, false, &r));
	assert_int_equal(say(line, 10, 20000), 10);
}

TEST_WITH(the_end_tells_of_all, reset, NULL)
{
	static const char one[] = "one", other[] = "other";
	struct repeat r;

	say(one, 11, 1000);
	say(other, 12, 2000);
	assert_int_equal(all.due_ms, 11000);
	assert_true(repeat_take(&all, 11000, false, &r));
	assert_string_equal(r.text, "one");
	assert_int_equal(all.due_ms, 12000);
	assert_false(repeat_take(&all, 11000, false, &r));
	assert_true(repeat_take(&all, 11000, true, &r));
	assert_string_equal(r.text, "other");
	assert_false(repeat_take(&all, 11000, true, &r));
}

TEST_WITH(more_kinds_of_lines_than_there_is_room_for_are_written, reset, NULL)
{
	static char formats[10000];
	int written = 0, slots = 0;
	struct repeat r;

	for (size_t i = 0; i < sizeof(formats); i++)
		written += say(&formats[i], 20, 1000);
	while (repeat_take(&all, 1000, true, &r))
		slots++;
	assert_in_range(slots, REPEAT_SLOTS / 2, REPEAT_SLOTS);
	assert_int_equal(written, slots * 10 + ((int)sizeof(formats) - slots) * 20);
}

TEST_THAT(a_text_is_kept_up_to_a_whole_character)
{
	char text[REPEAT_TEXT_MAX + 10];
	struct repeat r;

	memset(text, 'x', sizeof(text));
	memcpy(text + REPEAT_TEXT_MAX - 3, "\xe2\x82\xac", 3);
	text[sizeof(text) - 1] = '\0';
	repeat_keep(&r, 1, text);
	assert_int_equal(strlen(r.text), REPEAT_TEXT_MAX - 3);
}

RUN_TESTS()
