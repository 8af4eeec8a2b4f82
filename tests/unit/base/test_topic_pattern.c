

#include "check.h"

#include "base/topic_pattern.h"

static const struct {
	const char *pattern, *key;
	bool matches;
} cases[] = {
	{ "a.b", "a.b", true },
	{ "a.b", "a.c", false },
	{ "a.*", "a.b", true },
	{ "a.*", "a.b.c", false },
	{ "a.*", "a", false },
	{ "*", "", false },
	{ "#", "", true },
	{ "#", "a..b", true },
	{ "", "", true },
	{ "", "a", false },
	{ "a.#", "a", true },
	{ "a.#.z", "a.b.c.z", true },
	{ "a.#.z", "a.b.c", false },
	{ "#.b.#", "a.b.c", true },
	{ "#.b.#", "a.c", false },
	{ "a.*.b", "a..b", true },
	{ "a.*", "a.", true },
	{ "a..b", "a..b", true },
	{ "a..b", "a.b", false },
	{ "a..b", "a.x.b", false },
	{ "a.", "a.", true },
	{ "a.", "a", false },
	{ ".", ".", true },
	{ ".", "", false },
	{ "#..a", ".a", true },
	{ "#.#.#", "", true },
	{ "#.#.#", "a.b", true },
	{ "#.*.#.*.#", "a", false },
	{ "#.*.#.*.#", "a.b.c", true },
	{ "#.#.a.#.#", "x.a.y", true },
	{ "#.#.a.#.#", "x.b.y", false },
};

TEST_THAT(it_matches_word_by_word)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (topic_pattern_matches(slice_from(cases[i].pattern),
					  slice_from(cases[i].key)) != cases[i].matches)
			fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].key);
		assert_null(topic_pattern_fault(slice_from(cases[i].pattern)));
	}
}

/* As lua/tide/topic_trie.lua says it. */
TEST_THAT(a_wrong_pattern_has_a_fault)
{
	assert_string_equal(topic_pattern_fault(SLICE("a.b*")),
			    "has a word with a wildcard in it; '*' and '#' are words of "
			    "their own");
	assert_non_null(topic_pattern_fault(SLICE("##")));
	assert_string_equal(topic_pattern_fault(SLICE("#.a.*.#.b.#")),
			    "has '#' more than twice");
}

RUN_TESTS()
