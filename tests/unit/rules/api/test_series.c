/* Names and labels of metrics as one text. */

#include "check.h"

#include <stdio.h>

#include "rules/api/meters.h"

static const char *write(const char *name, struct series_label *labels, unsigned count)
{
	static char text[SERIES_TEXT_MAX + 1];
	size_t len = series_write(text, slice_from(name), labels, count);

	text[len] = '\0';
	return text;
}

static const char *other(const char *text)
{
	static char out[SERIES_TEXT_MAX + 1];

	out[series_write_other(out, slice_from(text))] = '\0';
	return out;
}

TEST_THAT(labels_are_sorted_and_escaped)
{
	struct series_label labels[] = { { SLICE("b"), SLICE("x\"y\\z\nw") },
					 { SLICE("a"), SLICE("1") },
					 { SLICE("c"), SLICE("") } };
	struct series s;

	const char *text = write("n", labels, 3);
	assert_string_equal(text, "n{a=\"1\",b=\"x\\\"y\\\\z\\nw\"}");
	assert_true(series_read(slice_from(text), &s));
	assert_int_equal(s.count, 2);
	assert_true(slice_is(s.labels[0].name, "a"));
	assert_true(slice_is(s.labels[1].value, "x\"y\\z\nw"));
	assert_string_equal(write("n", labels, 0), "n");
}

TEST_THAT(values_are_cut_and_made_utf8)
{
	char large[200];
	struct series_label label = { SLICE("l"), { large, sizeof(large) } };

	memset(large, 'x', sizeof(large));
	memcpy(large + SERIES_VALUE_MAX - 1, "\xc3\xa4", 2);
	assert_int_equal(strlen(write("n", &label, 1)),
			 strlen("n{l=\"\"}") + SERIES_VALUE_MAX - 1);
	label.value = SLICE("\xff\xc3\xa4");
	assert_string_equal(write("n", &label, 1), "n{l=\"?\xc3\xa4\"}");
}

TEST_THAT(the_longest_fits)
{
	char name[SERIES_NAME_MAX], names[SERIES_LABELS_MAX][SERIES_LABEL_MAX];
	char value[SERIES_VALUE_MAX + 10];
	struct series_label labels[SERIES_LABELS_MAX];
	char out[SERIES_TEXT_MAX];
	struct series s;

	memset(name, 'n', sizeof(name));
	memset(value, '"', sizeof(value));
	for (int i = 0; i < SERIES_LABELS_MAX; i++) {
		memset(names[i], 'a' + i, sizeof(names[i]));
		labels[i] = (struct series_label){ { names[i], sizeof(names[i]) },
						   { value, sizeof(value) } };
	}
	size_t len = series_write(out, (struct slice){ name, sizeof(name) }, labels,
				  SERIES_LABELS_MAX);
	assert_true(len < SERIES_TEXT_MAX);
	assert_true(series_read((struct slice){ out, len }, &s));
	assert_int_equal(s.count, SERIES_LABELS_MAX);
}

TEST_THAT(all_others_have_one_text)
{
	assert_string_equal(other("n{a=\"1\",b=\"2\"}"), "n{a=\"other\",b=\"other\"}");
	assert_string_equal(other("n"), "n");
	assert_string_equal(other("n{"), "n{");
}

TEST_THAT(names_are_those_of_prometheus)
{
	static const char *const good[] = { "a", "_x9", "Orders_seen", "total" };
	static const char *const bad[] = { "",        "9a",    "a b",      "a-b", "a{",
					   "x_total", "x_sum", "\xc3\xa4", "a:b" };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(series_is_name(slice_from(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(series_is_name(slice_from(bad[i])));
	assert_false(series_is_label(SLICE("le")));
	assert_false(series_is_label(SLICE("__name__")));
	assert_true(series_is_label(SLICE("_a")));
}

TEST_THAT(other_texts_are_not_read)
{
	static const char *const bad[] = {
		"n{",          "n{}",          "n{a}",        "n{a=}",
		"n{a=\"1\"",   "n{a=\"1\"}x",  "n{a=\"1\",}", "n{a=\"1\" b=\"2\"}",
		"n{a=\"1\\",   "a b{a=\"1\"}", "{a=\"1\"}",   "n{le=\"1\"}",
		"n{a=\"1\"}}", "n{a=\"1\"}{",
	};
	struct series s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(series_read(slice_from(bad[i]), &s));
}

RUN_TESTS()
