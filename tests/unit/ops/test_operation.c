#include "check.h"

#include "ops/operation.h"
#include "proto/line/request.h"

TEST_THAT(each_row_is_sound)
{
	const struct operation *o, *other;

	for (size_t i = 0; (o = operation_at(i)) != NULL; i++) {
		assert_non_null(o->name);
		assert_non_null(o->run);
		assert_non_null(o->parameters);
		assert_non_null(o->help);
		assert_non_null(o->group);
		assert_true(o->line || o->path);
		assert_int_equal(o->method != NULL, o->path != NULL);
		assert_true(!o->path || o->answer || !(o->features & OPERATION_ANSWERS) ||
			    o->method[0] != 'G');
		assert_in_range(operation_words(o, false), operation_words(o, true),
				REQUEST_WORDS_MAX);
		for (size_t k = 0; k < i; k++) {
			other = operation_at(k);
			assert_string_not_equal(other->name, o->name);
			assert_false(other->line && o->line &&
				     strcmp(other->line, o->line) == 0);
		}
	}
}

static void expect_row(const char *line, const char *name, const char *rest)
{
	struct slice after;
	struct error err = { 0 };
	const struct operation *o = operation_find(slice_from(line), &after, &err);

	assert_non_null(o);
	assert_string_equal(o->name, name);
	assert_true(slice_is(after, rest));
}

TEST_THAT(a_line_finds_the_row_with_most_of_its_words)
{
	struct slice rest;
	struct error err = { 0 };

	expect_row("PURGE jobs", "purgeQueue", "jobs");
	expect_row("purge jobs", "purgeQueue", "jobs");
	expect_row("PURGE", "purgeQueue", "");
	expect_row("RULES shadow promote install", "install", "");
	expect_row("RULES shadow promote", "promote", "");
	expect_row("RULES shadow next share=5", "startShadow", "next share=5");
	expect_row("STATS queue", "stats", "queue");
	expect_row("STATS queue jobs", "getQueue", "jobs");
	expect_row("STATS", "stats", "");
	expect_row("RULES show", "showScript", "");
	assert_null(operation_find(SLICE("RULES Status"), &rest, &err));
	assert_int_equal(err.code, TIDE_ESYNTAX);
	assert_null(operation_find(SLICE("RULE"), &rest, &err));
	assert_int_equal(err.code, TIDE_EVERB);
	assert_null(operation_find(SLICE(""), &rest, &err));
	assert_int_equal(err.code, TIDE_EVERB);
}

RUN_TESTS()
