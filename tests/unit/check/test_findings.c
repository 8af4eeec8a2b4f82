#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "check/findings.h"

static void assert_printed(struct findings *f, const char *wanted)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	findings_print(f, out);
	fclose(out);
	assert_string_equal(text, wanted);
	free(text);
}

TEST_THAT(findings_come_in_the_order_of_files_and_lines)
{
	struct findings f;
	findings_init(&f, "my/rules//");
	findings_add(&f, FINDING_PROBLEM, "b.lua", 2, "two");
	findings_add(&f, FINDING_PROBLEM, "b.lua", 1, "one");
	findings_add(&f, FINDING_PROBLEM, "a.lua", 10, "ten %d", 10);
	findings_add(&f, FINDING_NOTE, "", 0, "of all");
	findings_add(&f, FINDING_PROBLEM, "a.lua", 9, "nine");
	findings_add(&f, FINDING_PROBLEM, "", 0, "all");
	assert_int_equal(f.problems, 5);
	assert_printed(&f, "my/rules: note: of all\n"
			   "my/rules: all\n"
			   "my/rules/a.lua:9: nine\n"
			   "my/rules/a.lua:10: ten 10\n"
			   "my/rules/b.lua:1: one\n"
			   "my/rules/b.lua:2: two\n");
	assert_true(findings_has(&f, "a.lua", 9));
	assert_false(findings_has(&f, "a.lua", 8));
	findings_deinit(&f);
}

TEST_THAT(what_is_outside_of_the_directory_comes_last)
{
	struct findings f;
	findings_init(&f, "/");
	findings_add(&f, FINDING_OUTSIDE, "a.defs", 3, "b");
	findings_add(&f, FINDING_OUTSIDE, "broker", 0, "c");
	findings_add(&f, FINDING_OUTSIDE, "a.defs", 1, "a");
	findings_add(&f, FINDING_PROBLEM, "z.lua", 1, "z");
	assert_printed(&f, "/z.lua:1: z\na.defs:1: a\na.defs:3: b\nbroker: c\n");
	findings_deinit(&f);
}

TEST_THAT(an_error_has_its_own_place)
{
	struct findings f;
	findings_init(&f, "r");
	findings_add_error(&f, "retry/a.lua:3: '=' expected near 'b.lua:4:'");
	findings_add_error(&f, "retry/x.lua: is larger than 1 byte");
	findings_add_error(&f, "no place at a.lua:3: here");
	assert_int_equal(f.problems, 3);
	assert_printed(&f, "r:1: no place at a.lua:3: here\n"
			   "r/retry/a.lua:3: '=' expected near 'b.lua:4:'\n"
			   "r/retry/x.lua:1: is larger than 1 byte\n");
	findings_deinit(&f);
}

TEST_THAT(what_is_found_twice_is_told_once)
{
	struct findings f;
	findings_init(&f, "r");
	findings_add_error(&f, "lib/m.lua:1: wrong (called from retry/a.lua:1)");
	findings_add_error(&f, "lib/m.lua:1: wrong (called from retry/b.lua:1)");
	findings_add_error(&f, "lib/m.lua:1: wronger");
	assert_int_equal(f.problems, 2);
	assert_printed(&f, "r/lib/m.lua:1: wrong (called from retry/a.lua:1)\n"
			   "r/lib/m.lua:1: wronger\n");
	findings_deinit(&f);
}

RUN_TESTS()
