#include "check.h"

#include <stdio.h>

#include "broker/unroutable.h"

static void check(const struct unroutable *u, const char *expected)
{
	struct buf text = { 0 };
	struct json j = { .out = &text };

	json_object_begin(&j);
	unroutable_write(u, &j);
	json_object_end(&j);
	assert_buf(&text, expected);
	buf_deinit(&text);
}

TEST_THAT(nothing_is_kept_of_none)
{
	struct unroutable u = { 0 };

	check(&u, "{\"unroutable\":0,\"unroutable_keys\":[]}");
	unroutable_deinit(&u);
}

TEST_THAT(the_key_seen_last_is_the_first)
{
	struct unroutable u = { 0 };

	unroutable_add(&u, SLICE("a"), 1);
	unroutable_add(&u, SLICE(""), 2);
	unroutable_add(&u, SLICE("a"), 3);
	check(&u, "{\"unroutable\":3,\"unroutable_keys\":["
		  "{\"key\":\"a\",\"count\":2,\"last_ms\":3},"
		  "{\"key\":\"\",\"count\":1,\"last_ms\":2}]}");
	unroutable_deinit(&u);
}

TEST_THAT(the_key_seen_longest_ago_makes_room)
{
	struct unroutable u = { 0 };
	char key[16];

	for (int i = 0; i < 1000; i++) {
		unroutable_add(&u, SLICE("often"), i);
		snprintf(key, sizeof(key), "k%d", i);
		unroutable_add(&u, slice_from(key), i);
	}
	assert_int_equal(u.count, 2000);
	assert_int_equal(u.key_count, UNROUTABLE_KEYS_MAX);
	unroutable_add(&u, SLICE("often"), 1000);
	struct buf text = { 0 };
	struct json j = { .out = &text };
	json_object_begin(&j);
	unroutable_write(&u, &j);
	json_object_end(&j);
	assert_non_null(strstr(buf_cstr(&text), "[{\"key\":\"often\",\"count\":1001,"));
	assert_non_null(strstr(buf_cstr(&text), "k999"));
	assert_null(strstr(buf_cstr(&text), "k992"));
	buf_deinit(&text);
	unroutable_deinit(&u);
}

RUN_TESTS()
