#include "check.h"

#include "base/msg.h"

static const struct msg_header headers[] = {
	{ SLICE("tier"), SLICE("gold") },
	{ SLICE("empty"), SLICE("") },
};

static const struct msg message = {
	.key = SLICE("orders.eu.paid"),
	.headers = headers,
	.header_count = COUNT(headers),
	.payload = "one\0two",
	.payload_len = 7,
};

static bool has(struct slice option)
{
	struct msg_match match;
	struct error err;
	bool result;

	assert_int_equal(msg_match_init(&match, option, &err), TIDE_OK);
	result = msg_match_has(&match, &message, 1);
	msg_match_deinit(&match);
	return result;
}

TEST_THAT(without_an_option_all_match)
{
	assert_true(has((struct slice){ NULL, 0 }));
}

TEST_THAT(a_text_is_found_in_payload_and_header_values)
{
	assert_true(has(SLICE("one")));
	assert_true(has(SLICE("e\0t")));
	assert_true(has(SLICE("one\0two")));
	assert_false(has(SLICE("one\0two.")));
	assert_true(has(SLICE("text:gold")));
	assert_false(has(SLICE("tier")));
	assert_false(has(SLICE("orders")));
	assert_false(has(SLICE("text:key:")));
}

TEST_THAT(a_key_is_matched_by_a_topic_pattern)
{
	assert_true(has(SLICE("key:orders.eu.paid")));
	assert_true(has(SLICE("key:orders.*.paid")));
	assert_true(has(SLICE("key:#")));
	assert_false(has(SLICE("key:orders.*")));
}

TEST_THAT(a_header_is_matched_by_a_glob_of_its_value)
{
	assert_true(has(SLICE("h:tier~gold")));
	assert_true(has(SLICE("h:tier~g*")));
	assert_true(has(SLICE("h:tier~*d")));
	assert_true(has(SLICE("h:tier~*o*l*")));
	assert_true(has(SLICE("h:tier~g**d")));
	assert_true(has(SLICE("h:tier~*")));
	assert_true(has(SLICE("h:tier~gold*")));
	assert_true(has(SLICE("h:empty~")));
	assert_true(has(SLICE("h:empty~**")));
	assert_false(has(SLICE("h:empty~*a*")));
	assert_false(has(SLICE("h:tier~")));
	assert_false(has(SLICE("h:tier~gol")));
	assert_false(has(SLICE("h:tier~old")));
	assert_false(has(SLICE("h:tier~gold*d")));
	assert_false(has(SLICE("h:tier~gol*ld")));
	assert_false(has(SLICE("h:tier~*l*o*")));
	assert_false(has(SLICE("h:tier=g*")));
	assert_false(has(SLICE("h:none~*")));
}

TEST_THAT(a_header_is_matched_by_name_or_by_value_too)
{
	assert_true(has(SLICE("h:tier")));
	assert_true(has(SLICE("h:tier=gold")));
	assert_false(has(SLICE("h:tier=")));
	assert_false(has(SLICE("h:tier=golden")));
	assert_true(has(SLICE("h:empty=")));
	assert_true(has(SLICE("h:empty")));
	assert_false(has(SLICE("h:other")));
}

TEST_THAT(what_says_nothing_is_refused)
{
	static const struct slice bad[] = { SLICE(""),     SLICE("text:"),
					    SLICE("key:"), SLICE("key:a b"),
					    SLICE("h:"),   SLICE("h:=x") };
	struct msg_match match;
	struct error err;

	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_int_equal(msg_match_init(&match, bad[i], &err), TIDE_ESYNTAX);
		assert_null(match.owned);
	}
}

RUN_TESTS()
