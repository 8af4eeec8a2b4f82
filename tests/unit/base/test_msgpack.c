#include "check.h"

#include "base/msgpack.h"

static struct json_tape tape;
static struct buf out;
static struct error err;

static int tear_down(void **state)
{
	json_tape_deinit(&tape);
	buf_deinit(&out);
	return 0;
}

static const struct json_node *read_bytes(const char *bytes, size_t len)
{
	int rc = msgpack_read(&tape, (struct slice){ bytes, len }, 32, &err);

	return rc == TIDE_OK ? tape.nodes : NULL;
}

#define READ(bytes) read_bytes((bytes), sizeof(bytes) - 1)
#define REFUSED(bytes, why)                         \
	do {                                        \
		assert_null(READ(bytes));           \
		assert_string_equal(err.text, why); \
	} while (0)

static void integers_have_the_shortest_form(void **state)
{
	static const struct {
		int64_t n;
		size_t len;
	} cases[] = { { 0, 1 },
		      { 127, 1 },
		      { 128, 2 },
		      { 255, 2 },
		      { 256, 3 },
		      { 65535, 3 },
		      { 65536, 5 },
		      { UINT32_MAX, 5 },
		      { INT64_C(4294967296), 9 },
		      { INT64_MAX, 9 },
		      { -1, 1 },
		      { -32, 1 },
		      { -33, 2 },
		      { -128, 2 },
		      { -129, 3 },
		      { -32768, 3 },
		      { -32769, 5 },
		      { INT32_MIN, 5 },
		      { INT64_C(-2147483649), 9 },
		      { INT64_MIN, 9 } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		buf_clear(&out);
		msgpack_put_integer(&out, cases[i].n);
		assert_int_equal(buf_len(&out), cases[i].len);
		const struct json_node *n = read_bytes(out.data, buf_len(&out));
		assert_non_null(n);
		assert_int_equal(n->kind, JSON_TAPE_INTEGER);
		assert_true(n->integer == cases[i].n);
	}
	assert_true(READ("\xcf\x7f\xff\xff\xff\xff\xff\xff\xff")->integer == INT64_MAX);
	REFUSED("\xcf\x80\0\0\0\0\0\0\0",
		"the MessagePack has an integer above 2^63-1 at byte 1");
	assert_int_equal(READ("\xd2\xff\xff\xff\xfe")->integer, -2);
}

static void other_values_are_read(void **state)
{
	assert_int_equal(READ("\xc0")->kind, JSON_TAPE_NULL);
	assert_int_equal(READ("\xc2")->kind, JSON_TAPE_FALSE);
	assert_int_equal(READ("\xc3")->kind, JSON_TAPE_TRUE);
	assert_true(READ("\xca\x3f\x80\0\0")->number == 1.0);
	assert_true(READ("\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a")->number == 0.1);
	assert_slice(json_tape_text(READ("\xa3"
					 "abc")),
		     "abc");
	assert_slice(json_tape_text(READ("\xd9\x03"
					 "abc")),
		     "abc");
	assert_slice(json_tape_text(READ("\xdb\0\0\0\x01"
					 "x")),
		     "x");
	assert_slice(json_tape_text(READ("\xc5\0\x02\xff\xfe")), "\xff\xfe");
	assert_non_null(READ("\x82\xa1"
			     "a\x93\x01\x02\x90\xa1"
			     "b\x80"));
	assert_int_equal(tape.nodes[0].len, 2);
	uint32_t a = json_tape_member(&tape, 0, SLICE("a"));
	assert_int_equal(tape.nodes[json_tape_element(&tape, a, 2)].integer, 2);
	assert_int_equal(tape.nodes[json_tape_member(&tape, 0, SLICE("b"))].kind,
			 JSON_TAPE_OBJECT);
	assert_int_equal(READ("\xdc\0\x01\x05")->len, 1);
	assert_int_equal(READ("\xdf\0\0\0\x01\xa0\x05")->len, 1);
}

static void what_is_wrong_is_refused_with_its_byte(void **state)
{
	REFUSED("", "the MessagePack has a value that is cut off at byte 1");
	REFUSED("\x92\x01", "the MessagePack has a value that is cut off at byte 1");
	REFUSED("\x92\x01\xcd\0",
		"the MessagePack has a value that is cut off at byte 3");
	REFUSED("\xa2"
		"a",
		"the MessagePack has a value that is cut off at byte 1");
	REFUSED("\xdd\xff\xff\xff\xff",
		"the MessagePack has a value that is cut off at byte 1");
	REFUSED("\x81\x01\x02", "the MessagePack has a name that is no text at byte 2");
	REFUSED("\x82\xa1"
		"a\x01\xa1"
		"a\x02",
		"the MessagePack has a name twice in a map that ends at byte 8");
	REFUSED("\x01\x02", "the MessagePack has more than one value at byte 2");
	REFUSED("\xc1", "the MessagePack has a byte that begins no value at byte 1");
	REFUSED("\xd4\x01\x02", "the MessagePack has an extension type at byte 1");
	REFUSED("\xca\x7f\xc0\0\0",
		"the MessagePack has a number that is NaN or infinite at byte 1");
	assert_int_equal(msgpack_read(&tape, SLICE("\x91\x91\x90"), 2, &err),
			 TIDE_ELIMIT);
	assert_string_equal(err.text, "the MessagePack is nested deeper than 2 levels");
}

static void lengths_have_the_shortest_form(void **state)
{
	static char text[70000];
	static const struct {
		size_t len, head;
	} cases[] = { { 0, 1 },   { 31, 1 },    { 32, 2 },   { 255, 2 },
		      { 256, 3 }, { 65535, 3 }, { 65536, 5 } };

	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < COUNT(cases); i++) {
		buf_clear(&out);
		msgpack_put_text(&out, (struct slice){ text, cases[i].len });
		assert_int_equal(buf_len(&out), cases[i].head + cases[i].len);
		assert_int_equal(read_bytes(out.data, buf_len(&out))->len, cases[i].len);
	}
	buf_clear(&out);
	msgpack_put_array(&out, 15);
	msgpack_put_array(&out, 16);
	msgpack_put_map(&out, 65535);
	msgpack_put_map(&out, 65536);
	msgpack_put_text(&out, SLICE("\xff"));
	assert_int_equal(buf_len(&out), 1 + 3 + 3 + 5 + 3);
	assert_memory_equal(out.data,
			    "\x9f\xdc\0\x10\xde\xff\xff\xdf\0\x01\0\0\xc4\x01\xff", 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(integers_have_the_shortest_form, tear_down),
		cmocka_unit_test_teardown(other_values_are_read, tear_down),
		cmocka_unit_test_teardown(what_is_wrong_is_refused_with_its_byte,
					  tear_down),
		cmocka_unit_test_teardown(lengths_have_the_shortest_form, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
