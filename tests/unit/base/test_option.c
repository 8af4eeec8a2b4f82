#include "check.h"

#include <string.h>

#include "base/option.h"

static const struct option_row options[] = {
	{ COMMAND_FLAG("must", "a flag") },
	{ COMMAND_TEXT("queue", "NAME", NULL, "a text") },
	{ COMMAND_CHOICE("ack", "manual|auto", "manual", "a choice") },
	{ COMMAND_NUMBER("count", "7", "a number", 1, 100) },
	{ COMMAND_BYTES("size", "16M", "bytes", 1024, UINT64_C(1) << 40) },
	{ COMMAND_DURATION("wait", "30s", "a duration", 10, 60000) },
	{ .name = NULL },
};
static const struct option_row common[] = {
	{ COMMAND_FLAG("help", "the page") },
	{ .name = NULL },
};

static uint64_t value_of(const char *name, const char *text)
{
	const struct option_row *o = option_find(options, name);
	struct error err;
	uint64_t value;

	if (option_value(o, text, &value, &err) < 0)
		fail_msg("--%s %s: %s", name, text, err.text);
	return value;
}

static void check_bad(const char *name, const char *text, const char *sentence)
{
	const struct option_row *o = option_find(options, name);
	struct error err;
	uint64_t value;

	assert_int_equal(option_value(o, text, &value, &err), TIDE_ESYNTAX);
	assert_string_equal(err.text, sentence);
}

TEST_THAT(values_are_read_by_their_type)
{
	assert_int_equal(value_of("count", "1"), 1);
	assert_int_equal(value_of("count", "100"), 100);
	assert_int_equal(value_of("ack", "manual"), 0);
	assert_int_equal(value_of("ack", "auto"), 1);
	assert_int_equal(value_of("size", "1024"), 1024);
	assert_int_equal(value_of("size", "1K"), 1024);
	assert_int_equal(value_of("size", "3M"), 3 << 20);
	assert_int_equal(value_of("size", "1024G"), UINT64_C(1) << 40);
	assert_int_equal(value_of("wait", "1m"), 60000);
	assert_int_equal(value_of("wait", "10"), 10);
}

TEST_THAT(wrong_values_are_refused_with_what_is_allowed)
{
	check_bad("count", "0", "--count must be 1-100, not '0'");
	check_bad("count", "101", "--count must be 1-100, not '101'");
	check_bad("count", "-1", "--count must be 1-100, not '-1'");
	check_bad("count", "", "--count must be 1-100, not ''");
	check_bad("ack", "", "--ack must be one of manual|auto, not ''");
	check_bad("ack", "man", "--ack must be one of manual|auto, not 'man'");
	check_bad("ack", "AUTO", "--ack must be one of manual|auto, not 'AUTO'");
	check_bad("ack", "manual|auto",
		  "--ack must be one of manual|auto, not 'manual|auto'");
	check_bad(
		"size", "1k",
		"--size must be 1024-1099511627776 bytes, as 512K, 16M or 1G, not '1k'");
	check_bad("size", "1025G",
		  "--size must be 1024-1099511627776 bytes, as 512K, 16M or 1G, not "
		  "'1025G'");
	check_bad("size", "99999999999999999999G",
		  "--size must be 1024-1099511627776 bytes, as 512K, 16M or 1G, not "
		  "'99999999999999999999G'");
	check_bad("wait", "61s",
		  "--wait must be a duration like 250ms, 30s, 5m, 2h or 1d, from 10ms to "
		  "1m, not '61s'");
	check_bad("wait", "soon",
		  "--wait must be a duration like 250ms, 30s, 5m, 2h or 1d, from 10ms to "
		  "1m, not 'soon'");
}

static int parse(struct command_line *line, struct error *err, int argc,
		 const char *const *given)
{
	static char *argv[16];

	for (int i = 0; i < argc; i++)
		argv[i] = (char *)(uintptr_t)given[i];
	*line = (struct command_line){ .options = options, .common = common };
	return option_take_line(line, argc, argv, err);
}

TEST_THAT(options_and_words_may_be_mixed)
{
	struct command_line line;
	struct error err;
	const char *const given[] = { "pub",     "-", "--count=3", "k",  "--must",
				      "--count", "5", "--",        "--x" };

	assert_int_equal(parse(&line, &err, 9, given), TIDE_OK);
	assert_int_equal(line.word_count, 3);
	assert_string_equal(line.words[0], "-");
	assert_string_equal(line.words[1], "k");
	assert_string_equal(line.words[2], "--x");
	assert_int_equal(line.given_count, 3);
	assert_int_equal(option_given(&line, "count")->value, 5);
	assert_int_equal(option_given(&line, "must")->value, 1);
	assert_null(option_given(&line, "queue"));
}

TEST_THAT(a_wrong_command_line_is_refused)
{
	static const char *const cases[][3] = {
		{ "sub", "--colour", "there is no option '--colour'" },
		{ "sub", "-x", "there is no option '-x'" },
		{ "sub", "--must=1", "there is no option '--must=1'" },
		{ "sub", "--queue", "option '--queue' needs a value" },
		{ "sub", "--count=x", "--count must be 1-100, not 'x'" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command_line line;
		struct error err;

		assert_int_equal(parse(&line, &err, 2, cases[i]), TIDE_ESYNTAX);
		assert_string_equal(err.text, cases[i][2]);
	}
}

TEST_THAT(more_options_than_fit_are_refused)
{
	static char verb[] = "pub", flag[] = "--must";
	char *argv[COMMAND_OPTIONS_MAX + 2] = { verb };
	struct command_line line = { .options = options };
	struct error err;

	for (int i = 1; i < COMMAND_OPTIONS_MAX + 2; i++)
		argv[i] = flag;
	assert_int_equal(option_take_line(&line, COMMAND_OPTIONS_MAX + 1, argv, &err),
			 TIDE_OK);
	line = (struct command_line){ .options = options };
	assert_int_equal(option_take_line(&line, COMMAND_OPTIONS_MAX + 2, argv, &err),
			 TIDE_ESYNTAX);
}

TEST_THAT(help_comes_before_what_is_wrong_behind_it)
{
	struct command_line line;
	struct error err;
	const char *const given[] = { "sub", "-h", "--colour" };

	assert_int_equal(parse(&line, &err, 3, given), TIDE_OK);
	assert_non_null(option_given(&line, "help"));
}

TEST_THAT(the_help_has_a_line_for_each_option)
{
	struct buf text = { 0 };

	option_help(options, &text);
	option_help(NULL, &text);
	assert_string_equal(buf_cstr(&text),
			    "  --must                      a flag\n"
			    "  --queue NAME                a text\n"
			    "  --ack manual|auto           a choice (manual)\n"
			    "  --count N                   a number (7)\n"
			    "  --size BYTES                bytes (16M)\n"
			    "  --wait DURATION             a duration (30s)\n");
	buf_deinit(&text);
}

RUN_TESTS()
