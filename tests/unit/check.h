/* check.h: cmocka with what it wants to be included before it, tests that are said once,
 * and assertions on slices and buffers.
 *
 *     TEST_THAT(a_sentence_that_is_true)
 *     {
 *             ...
 *     }
 *
 *     RUN_TESTS(.setup = setup, .teardown = teardown)
 *
 * A program runs its tests in the order in which they stand; TIDE_TEST_ONLY: those of
 * that name (with * and ?). */
#ifndef TIDE_TEST_CHECK_H
#define TIDE_TEST_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/slice.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Around each test that has no other; around all of them. */
struct test_fixture {
	CMFixtureFunction setup, teardown, begin, end;
};

#define CHECK_TESTS_MAX 128

static struct CMUnitTest check_tests[CHECK_TESTS_MAX];
static size_t check_count;

static inline void check_add(struct CMUnitTest test)
{
	assert_true(check_count < CHECK_TESTS_MAX);
	check_tests[check_count++] = test;
}

static inline int test_program(struct test_fixture f)
{
	for (size_t i = 0; i < check_count; i++) {
		if (check_tests[i].setup_func || check_tests[i].teardown_func)
			continue;
		check_tests[i].setup_func = f.setup;
		check_tests[i].teardown_func = f.teardown;
	}
	cmocka_set_test_filter(getenv("TIDE_TEST_ONLY"));
	return _cmocka_run_group_tests("tests", check_tests, check_count, f.begin, f.end);
}

#define CHECK_ADD(name, run, setup, teardown)                                        \
	__attribute__((constructor)) static void add_##name(void)                    \
	{                                                                            \
		check_add((struct CMUnitTest){ #name, run, setup, teardown, NULL }); \
	}

#define TEST_WITH(name, setup, teardown)       \
	static void name(void **state);        \
	CHECK_ADD(name, name, setup, teardown) \
	static void name(void **state)
#define TEST_THAT(name) TEST_WITH(name, NULL, NULL)
/* With what the setup has left in *state: TEST_OF(struct harness *h, name). */
#define TEST_OF(declaration, name)              \
	static void name(declaration);          \
	static void run_##name(void **state)    \
	{                                       \
		name(*state);                   \
	}                                       \
	CHECK_ADD(name, run_##name, NULL, NULL) \
	static void name(declaration)
#define RUN_TESTS(...)                                                     \
	int main(void)                                                     \
	{                                                                  \
		return test_program((struct test_fixture){ __VA_ARGS__ }); \
	}

#define assert_slice(s, text)                                   \
	do {                                                    \
		struct slice got_ = (s);                        \
		assert_int_equal(got_.len, strlen(text));       \
		assert_memory_equal(got_.data, text, got_.len); \
	} while (0)

#define assert_buf(b, text) assert_string_equal(buf_cstr(b), text)

#endif
