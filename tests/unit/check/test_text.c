#include "check.h"

#include "base/buf.h"
#include "check/findings.c"

static void write_name(void *ctx, struct slice name, int line)
{
	buf_printf(ctx, "%" SLICE_FMT ":%d ", SLICE_ARG(name), line);
}

struct text_case {
	const char *text, *wanted;
};

static void assert_cases(const struct text_case *cases, size_t count,
			 void (*each)(struct slice, findings_text_fn *, void *))
{
	for (size_t i = 0; i < count; i++) {
		struct buf out = { 0 };

		each(slice_from(cases[i].text), write_name, &out);
		assert_buf(&out, cases[i].wanted);
		buf_deinit(&out);
	}
}

TEST_THAT(exchanges_are_strings_assigned_to_the_field)
{
	static const struct text_case cases[] = {
		{ "", "" },
		{ "msg.exchange = \"a\"\nreturn { exchange='b', exchange =\t'c' }",
		  "a:1 b:2 c:2 " },
		{ "x = exchange == 'a' or exchanges = 'b' or my_exchange = 'c'", "" },
		{ "exchange = name", "" },
		{ "exchange =", "" },
		{ "exchange = '", "" },
		{ "exchange = 'a", "" },
		{ "exchange = ''", "" },
		{ "exchange = 'a b'", "" },
		{ "exchange = 'a\\98'", "" },
		{ "exchange = '-' or { exchange = '*' }", "" },
		{ "exchangeexchange = 'a' exchange", "" },
	};

	assert_cases(cases, COUNT(cases), findings_each_exchange);
}

TEST_THAT(comments_and_long_strings_are_skipped)
{
	static const struct text_case cases[] = {
		{ "-- exchange = 'a'\nexchange = 'b' -- exchange = 'c'", "b:2 " },
		{ "--[[ exchange = 'a'\nexchange = 'b'\n]]\nexchange = 'c'", "c:4 " },
		{ "s = [[\nexchange = 'a'\n]] exchange = 'b'\nexchange = 'c'", "c:4 " },
		{ "s = [[x]]\nexchange = 'a'", "a:2 " },
		{ "--[[x]]\nexchange = 'a'", "a:2 " },
		{ "-- see [[\nexchange = 'a'", "a:2 " },
		{ "[[", "" },
	};

	assert_cases(cases, COUNT(cases), findings_each_exchange);
}

TEST_THAT(functions_begin_a_line)
{
	static const struct text_case cases[] = {
		{ "function M.a(x)\nend\nfunction  b:c ()\nend", "M.a:1 b:c:3 " },
		{ "local function a() end\n  function b() end\nfunctions c()", "" },
		{ "function (x)", "" },
		{ "function ", "" },
		{ "--[[\nfunction a()\n]]", "" },
	};

	assert_cases(cases, COUNT(cases), each_function);
}

RUN_TESTS()
