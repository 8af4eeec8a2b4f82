#include "check.h"

#include "rules/engine/lexer.h"
#include "rules/engine/words.h"

/* The kinds and texts of all tokens, and the line of the last. */
static int read_all(const char *text, struct buf *out)
{
	struct lexer l;
	struct token t;
	int line = 0;
	lexer_init(&l, slice_from(text));
	while ((t = lexer_next(&l)).kind != TOKEN_END) {
		buf_printf(out, "%c<%.*s>", "?NSDX"[t.kind], SLICE_ARG(t.text));
		line = t.line;
	}
	return line;
}

static void a_text_falls_into_words(void **state)
{
	static const struct {
		const char *text, *tokens;
		int line;
	} cases[] = {
		{ "", "", 0 },
		{ "#!/bin/lua\nx", "N<x>", 2 },
		{ "a.b = { ['c d'] = \"e\" }",
		  "N<a>X<.>N<b>X<=>X<{>X<[>S<c d>X<]>X<=>S<e>X<}>", 1 },
		{ "a==b~=c<=d..e...", "N<a>X<==>N<b>X<~=>N<c>X<<=>N<d>X<..>N<e>X<...>",
		  1 },
		{ "-- no\n--[[ no\n]] --[==[ ]] ]==]\nyes --", "N<yes>", 4 },
		{ "[[a\nb]] [=[ ]] ]=] x", "S<a\nb>S< ]] >N<x>", 2 },
		{ "'a\\'b' \"\\\\\"", "S<a\\'b>S<\\\\>", 1 },
		{ "0x1p+4 1e-3 .5 3..2", "D<0x1p+4>D<1e-3>D<.5>D<3..2>", 1 },
		{ "a[b[1]]", "N<a>X<[>N<b>X<[>D<1>X<]>X<]>", 1 },
		/* What is no Lua ends all the same. */
		{ "'abc", "S<abc>", 1 },
		{ "'abc\\", "S<abc\\>", 1 },
		{ "[[abc", "S<abc>", 1 },
		{ "--[[abc", "", 0 },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf out;
		buf_init(&out);
		assert_int_equal(read_all(cases[i].text, &out), cases[i].line);
		assert_buf(&out, cases[i].tokens);
		buf_deinit(&out);
	}
}

static void a_string_is_decoded(void **state)
{
	static const struct {
		const char *text, *value;
	} cases[] = {
		{ "'a\\tb\\n'", "a\tb\n" },
		{ "'\\65\\x42\\\\'", "AB\\" },
		{ "\"\\\"q\\\"\"", "\"q\"" },
		{ "[[a\\tb]]", "a\\tb" },
		{ "'\\", "" },
		{ "'\\x4", "x4" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct lexer l;
		struct buf out;
		buf_init(&out);
		lexer_init(&l, slice_from(cases[i].text));
		struct token t = lexer_next(&l);
		token_decode(&t, &out);
		assert_buf(&out, cases[i].value);
		buf_deinit(&out);
	}
}

static void a_pattern_is_matched_by_what_is_made_of_it(void **state)
{
	static const struct {
		const char *pattern, *text;
	} cases[] = {
		{ "^eu", "eu" },
		{ "^application/json", "application/json" },
		{ "^vip%-%d+$", "vip-1" },
		{ "\"urgent\"%s*:%s*true", "\"urgent\":true" },
		{ "^[^.]*%.new", ".new" },
		{ "(%w+)@[abc]", "a@a" },
		{ "a.c", "aac" },
		{ "100%", "100%" },
		{ "[", "" },
		{ "$", "" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf out;
		buf_init(&out);
		words_match_pattern(&out, slice_from(cases[i].pattern));
		assert_buf(&out, cases[i].text);
		buf_deinit(&out);
	}
}

static bool has(const struct words *w, const char *text)
{
	for (size_t i = 0; i < w->count; i++)
		if (strcmp(w->items[i], text) == 0)
			return true;
	return false;
}

static void literals_and_what_is_near_them_are_words(void **state)
{
	static char text[] = "return a < 64 * 1024 and h == '^eu' or 'x\\0y'";
	const struct bundle_file file = { (char[]){ "a.lua" }, text, sizeof(text) - 1 };
	struct words w = { .items = NULL };
	words_add_literals(&w, &file, 100);
	assert_true(has(&w, "63") && has(&w, "64") && has(&w, "65"));
	assert_true(has(&w, "65535") && has(&w, "65536") && has(&w, "65537"));
	assert_true(has(&w, "^eu") && has(&w, "eu"));
	assert_false(has(&w, "x")); /* it has a zero byte */
	words_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_falls_into_words),
		cmocka_unit_test(a_string_is_decoded),
		cmocka_unit_test(a_pattern_is_matched_by_what_is_made_of_it),
		cmocka_unit_test(literals_and_what_is_near_them_are_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
