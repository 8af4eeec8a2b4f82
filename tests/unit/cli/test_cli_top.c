#include "check.h"

#include "cli/cli_top.c"

static struct buf out;

static int teardown(void **state)
{
	buf_deinit(&out);
	return 0;
}

static json_t *row_of(const char *text)
{
	json_t *row = json_loads(text, 0, NULL);

	assert_non_null(row);
	return row;
}

/* The words of a line, with single spaces between them. */
static const char *words_of(const char *row, int width)
{
	json_t *object = row_of(row);
	struct buf line = { 0 };
	bool was_space = true;

	append_row(&views[0], object, width, &line);
	assert_int_equal(buf_len(&line), width);
	buf_clear(&out);
	for (const char *at = buf_cstr(&line); *at; at++) {
		if (*at != ' ' || !was_space)
			buf_append_char(&out, *at);
		was_space = *at == ' ';
	}
	buf_deinit(&line);
	json_decref(object);
	return buf_cstr(&out);
}

TEST_THAT(figures_fit_their_columns)
{
	assert_string_equal(
		words_of("{\"name\":\"q\",\"ready\":999999,\"unacked\":1000000,"
			 "\"delayed\":123456789,\"buried\":99900000000,"
			 "\"in_10s\":12.34,\"out_10s\":123456.7,"
			 "\"oldest_ready_ms\":999,\"consumers\":3,"
			 "\"paused\":\"in\"}",
			 120),
		"q 999999 1.00M 123M 99.9G 12.3 123k 999ms 3 no in");
	assert_string_equal(words_of("{\"name\":\"q\",\"ready\":0,\"paused\":\"both\","
				     "\"oldest_ready_ms\":3723000}",
				     120),
			    "q 0 - - - - - 1h02m - paused");
	assert_string_equal(words_of("{\"name\":\"q\",\"unusable\":\"no script\","
				     "\"oldest_ready_ms\":864000000}",
				     120),
			    "q - - - - - - 10d00h - unusable");
}

TEST_THAT(a_narrow_line_has_fewer_columns)
{
	const char *row = "{\"name\":\"a-name-of-a-queue\",\"ready\":1,\"unacked\":2,"
			  "\"delayed\":3,\"buried\":4,\"in_10s\":5,\"out_10s\":6,"
			  "\"oldest_ready_ms\":7,\"consumers\":8,\"paused\":\"no\"}";

	assert_string_equal(words_of(row, 90),
			    "a-name-of-a-queue 1 2 3 4 5.0 6.0 7ms 8 -");
	assert_string_equal(words_of(row, 80), "a-name-of-a-queue 1 2 3 5.0 6.0 7ms 8 -");
	assert_string_equal(words_of(row, 60), "a-name-of-a-queue 1 2 5.0 6.0 7ms");
}

TEST_THAT(nothing_of_a_text_drives_the_terminal)
{
	assert_int_equal(append_clipped("a\033[31mb\xc2\x9b"
					"c\xff",
					100, &out),
			 10);
	assert_string_equal(buf_cstr(&out), "a.[31mb.c.");
	buf_clear(&out);
	assert_int_equal(append_clipped("äöü", 2, &out), 2);
	assert_string_equal(buf_cstr(&out), "äö");
}

TEST_THAT(each_view_has_its_backlog_and_its_name)
{
	for (const struct view *v = views; v->name; v++) {
		assert_non_null(column_by_key(v, 'b'));
		assert_string_equal(sort_of(column_by_key(v, 'n')), "name");
		assert_null(column_by_key(v, 'q'));
		for (const struct view *w = views; w->name; w++)
			assert_null(column_by_key(v, w->key));
	}
}

RUN_TESTS(.teardown = teardown)
