#include "check.h"

#include <stdlib.h>

#include "base/buf.h"
#include "rules/sandbox/compile.h"

/* The line that is refused, 0 for none, of `head`, `again` so often and `tail`. */
static int refused_line(const char *head, const char *again, int times, const char *tail)
{
	struct buf text = { 0 };
	struct error err;
	int line = 0;

	buf_printf(&text, "%s", head);
	for (int i = 0; i < times; i++)
		buf_printf(&text, "%s", again);
	buf_printf(&text, "%s", tail);
	struct source source = { .data = (char *)buf_cstr(&text), .len = buf_len(&text) };
	if (compile_check_limits(&source, "x.lua", &err) != TIDE_OK)
		line = atoi(err.text + strlen("x.lua:"));
	buf_deinit(&text);
	return line;
}

TEST_THAT(long_chains_are_refused_however_they_are_written)
{
	static const char *const links[] = {
		".b",
		" . b",
		".\nb",
		"--[==[ ]] ; ]==].b",
		".--x=1\n b",
		"['b']",
		"[\"b\"]",
		"[ [[b]] ]",
		"[k]",
		"[1 + 2]",
		"['\\'; x = 1']",
		"['\\z\n = ']",
		"[0x1p+2]",
		"[f(1, 2)]",
		"[function() return 1 end]",
		".b:c().d",
		"[k.b]",
	};

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		if (refused_line("return a", links[i], 201, ".c") == 0)
			fail_msg("%s", links[i]);
	}
	assert_int_equal(refused_line("return a", ".b", 200, ""), 0);
	assert_int_equal(refused_line("return a", ".b", 201, ""), 1);
	assert_int_equal(refused_line("return a", "\n.b", 300, ""), 202);
	assert_int_equal(refused_line("return ((a", ".b", 150, ").b).b") +
				 refused_line("return ((a", ".b", 199, ").b).b"),
			 1);
	assert_int_equal(refused_line("return a", ".b[a.b]", 101, ""), 1);
	assert_int_equal(refused_line("return a", ".b[a.b]", 66, ""), 0);
}

TEST_THAT(what_is_no_chain_is_not_counted)
{
	static const char *const others[] = {
		"a.b = 1\n",
		"a.b(c.d) ",
		"a.b();",
		"a.b() c.d()",
		"::l:: a.b = 1 ",
		"local x = a.b .. a.b ",
		"x = { a.b, [1] = a.c; d = a.e } ",
		"f(a.b, 'a.b.c', [[a.b.c]])--a.b.c\n",
		"--[==[a.b.c]]]==]\n",
		"x = 1. + .5 + 0x1.p4 + 1.5e+3 ",
		"f(...) ",
		"if a.b and a.c then return a.d end ",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (refused_line("", others[i], 1000, "") != 0)
			fail_msg("%s", others[i]);
	}
}

TEST_THAT(many_jumps_are_refused)
{
	assert_int_equal(refused_line("", "goto a\n", 4096, "::a::"), 0);
	assert_int_equal(refused_line("", "goto a\n", 4097, "::a::"), 4097);
	assert_int_equal(refused_line("", "--goto a\nx = 'break' breaks = 1", 5000, ""),
			 0);
}

TEST_THAT(what_is_not_lua_ends_too)
{
	static const char *const halves[] = { "'",  "[[", "[==", "--[[", "a.", "0x",
					      "]]", "((", "\\",  "=",    "[",  "'\\" };

	for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
		refused_line("x", halves[i], 1, "");
		refused_line("x", halves[i], 100000, "");
	}
}

RUN_TESTS()
