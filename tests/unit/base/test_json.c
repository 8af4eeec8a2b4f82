#include "check.h"

#include <math.h>

#include "base/json.h"

struct document {
	struct buf out;
	struct json j;
};

static int set_up(void **state)
{
	static struct document d;
	d.out = (struct buf){ 0 };
	d.j = (struct json){ .out = &d.out };
	*state = &d;
	return 0;
}

static int tear_down(void **state)
{
	buf_deinit(&((struct document *)*state)->out);
	return 0;
}

TEST_THAT(commas_are_where_they_belong_at_every_depth)
{
	struct document *d = *state;
	struct json *j = &d->j;
	json_object_begin(j);
	json_member_int(j, "a", 1);
	json_key(j, "b");
	json_array_begin(j);
	json_array_begin(j);
	json_array_end(j);
	json_object_begin(j);
	json_object_end(j);
	json_nil(j);
	json_object_begin(j);
	json_member_bool(j, "x", true);
	json_member_bool(j, "y", false);
	json_object_end(j);
	json_array_end(j);
	json_member_text(j, "c", "");
	json_key_slice(j, SLICE("d"));
	json_object_begin(j);
	json_object_end(j);
	json_member_string(j, "e", SLICE("z"));
	json_object_end(j);
	assert_buf(&d->out, "{\"a\":1,\"b\":[[],{},null,{\"x\":true,\"y\":false}],"
			    "\"c\":\"\",\"d\":{},\"e\":\"z\"}");
}

TEST_THAT(strings_are_escaped)
{
	struct document *d = *state;
	json_array_begin(&d->j);
	json_text(&d->j, "\"\\/");
	json_text(&d->j, "\b\f\n\r\t\x01\x1f\x7f");
	json_slice(&d->j, (struct slice){ "a\0b", 3 });
	json_text(&d->j, "caf\xc3\xa9 \xf0\x9f\x8c\x8a");
	json_slice(&d->j, (struct slice){ NULL, 0 });
	json_array_end(&d->j);
	assert_buf(&d->out, "[\"\\\"\\\\/\",\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\","
			    "\"a\\u0000b\",\"caf\xc3\xa9 \xf0\x9f\x8c\x8a\",\"\"]");
}

TEST_THAT(bytes_that_are_not_utf8_are_replaced)
{
	struct document *d = *state;
	json_text(&d->j, "a\xff\xc3(\xe2\x82");
	assert_buf(&d->out, "\"a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST_THAT(any_bytes_make_valid_json)
{
	struct document *d = *state;
	char bytes[256 * 3];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 131 % 256);
	json_object_begin(&d->j);
	json_key_slice(&d->j, (struct slice){ "k\n\xff", 3 });
	json_slice(&d->j, (struct slice){ bytes, sizeof(bytes) });
	json_object_end(&d->j);
	const char *text = buf_cstr(&d->out);
	assert_true(slice_is_utf8(buf_slice(&d->out)));
	assert_true(slice_has_prefix(buf_slice(&d->out), "{\"k\\n\xef\xbf\xbd\":\""));
	/* A quote or a backslash in the string is escaped, or the string ends here. */
	size_t i = 11;
	for (; text[i] != '"'; i++) {
		assert_true((unsigned char)text[i] >= 0x20);
		if (text[i] == '\\')
			assert_non_null(strchr("bfnrtu\"\\", text[++i]));
	}
	assert_string_equal(text + i, "\"}");
}

TEST_THAT(whole_numbers_keep_every_digit)
{
	struct document *d = *state;
	json_array_begin(&d->j);
	json_int(&d->j, INT64_MIN);
	json_int(&d->j, -1);
	json_int(&d->j, 0);
	json_int(&d->j, INT64_MAX);
	json_uint(&d->j, UINT64_MAX);
	json_array_end(&d->j);
	assert_buf(&d->out, "[-9223372036854775808,-1,0,9223372036854775807,"
			    "18446744073709551615]");
}

TEST_THAT(numbers_are_short_and_exact_and_never_infinite)
{
	static const struct {
		double n;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 1, "1" },
		{ -1.5, "-1.5" },
		{ 0.1, "0.1" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ 1e21, "1e+21" },
		{ 5e-324, "4.94065645841247e-324" },
		{ 9007199254740993.0, "9007199254740992" },
		{ 0.1 + 0.2, "0.30000000000000004" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf out = { 0 };
		struct json j;
		j = (struct json){ .out = &out };
		json_number(&j, cases[i].n);
		assert_buf(&out, cases[i].text);
		buf_deinit(&out);
	}
	struct document *d = *state;
	json_array_begin(&d->j);
	json_number(&d->j, INFINITY);
	json_number(&d->j, -INFINITY);
	json_number(&d->j, NAN);
	json_array_end(&d->j);
	assert_buf(&d->out, "[null,null,null]");
}

RUN_TESTS(.setup = set_up, .teardown = tear_down)
