#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "failing_mem.h"

static struct json_tape tape;
static struct error err;

static int tear_down(void **state)
{
	json_tape_deinit(&tape);
	return 0;
}

static int read_text(const char *text)
{
	return json_tape_read(&tape, slice_from(text), 32, &err);
}

static const struct json_node *read_one(const char *text)
{
	assert_int_equal(read_text(text), TIDE_OK);
	return &tape.nodes[0];
}

static void assert_refused(const char *text, const char *why)
{
	if (read_text(text) == TIDE_OK)
		fail_msg("%s is read", text);
	assert_string_equal(err.text, why);
}

TEST_THAT(integers_are_exact_up_to_64_bits)
{
	static const struct {
		const char *text;
		int64_t n;
	} cases[] = { { "0", 0 },
		      { "-0", 0 },
		      { "42", 42 },
		      { "9007199254740993", INT64_C(9007199254740993) },
		      { "9223372036854775807", INT64_MAX },
		      { "-9223372036854775808", INT64_MIN } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct json_node *n = read_one(cases[i].text);

		assert_int_equal(n->kind, JSON_TAPE_INTEGER);
		assert_true(n->integer == cases[i].n);
	}
	assert_refused("9223372036854775808",
		       "the JSON has an integer of more than 64 bits at byte 1");
	assert_refused("[-9223372036854775809]",
		       "the JSON has an integer of more than 64 bits at byte 2");
	assert_refused("99999999999999999999999",
		       "the JSON has an integer of more than 64 bits at byte 1");
}

TEST_THAT(numbers_are_rounded_once)
{
	static const char *const texts[] = {
		"0.1",
		"-0.0",
		"1249.90",
		"1e22",
		"1e-7",
		"3.141592653589793238462643383279502884",
		"9007199254740993.0",
		"0.0000000000000000000000123",
		"123456789012345678901234567890.5",
		"2.2250738585072014e-308",
		"4.9406564584124654e-324",
		"1.7976931348623157E+308",
	};

	for (size_t i = 0; i < COUNT(texts); i++) {
		const struct json_node *n = read_one(texts[i]);

		assert_int_equal(n->kind, JSON_TAPE_NUMBER);
		assert_true(n->number == strtod(texts[i], NULL));
	}
	assert_refused("1e309", "the JSON has a number that is too large at byte 1");
}

TEST_THAT(texts_may_have_escapes)
{
	assert_slice(json_tape_text(read_one("\"plain \xc3\xa4\"")), "plain \xc3\xa4");
	assert_slice(json_tape_text(read_one("\"\"")), "");
	assert_slice(json_tape_text(read_one("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")),
		     "\"\\/\b\f\n\r\t");
	assert_slice(
		json_tape_text(read_one("\"a\\u0041\\u00e4\\u20ac\\uD83D\\uDE00z\"")),
		"aA\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z");
	/* The first text stays where it is when further ones have escapes. */
	read_one("[\"\\n1\",\"\\n2\",\"\\n3\"]");
	assert_slice(json_tape_text(&tape.nodes[2]), "\n1");
	assert_slice(json_tape_text(&tape.nodes[4]), "\n3");
}

TEST_THAT(what_is_no_json_is_refused_with_its_byte)
{
	static const struct {
		const char *text;
		int byte;
	} cases[] = {
		{ "", 1 },
		{ " ", 2 },
		{ "{", 2 },
		{ "[1,]", 4 },
		{ "[1 2]", 4 },
		{ "[,1]", 2 },
		{ "{\"a\"}", 5 },
		{ "{\"a\":1,}", 8 },
		{ "{a:1}", 2 },
		{ "01", 2 },
		{ "1.", 3 },
		{ ".5", 1 },
		{ "-", 2 },
		{ "+1", 1 },
		{ "1e", 3 },
		{ "nul", 4 },
		{ "True", 1 },
		{ "1 2", 3 },
		{ "\"a", 3 },
		{ "\"a\nb\"", 3 },
		{ "\"\\x\"", 3 },
		{ "\"\\u12g4\"", 6 },
		{ "\xef\xbb\xbf{}", 1 },
		{ "NaN", 1 },
		{ "{\"\\u0000\":1,}", 13 },
		{ "// x\n1", 1 },
	};
	char why[80];

	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(why, sizeof(why), "this is not JSON: wrong at byte %d",
			 cases[i].byte);
		assert_refused(cases[i].text, why);
	}
	assert_int_equal(json_tape_read(&tape, (struct slice){ "1\0", 2 }, 32, &err),
			 TIDE_ESYNTAX);
}

TEST_THAT(a_name_is_in_an_object_once)
{
	static char text[4096];
	size_t len = 0;

	assert_refused("{\"a\":1,\"b\":2,\"a\":3}",
		       "the JSON has a name twice in an object that ends at byte 19");
	read_one("{\"a\":{\"a\":[{\"a\":1}]}}");
	for (int n = 1; n <= 100; n++) {
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%c\"name %d\":{\"x\":%d}", n > 1 ? ',' : '{', n,
					n);
		snprintf(text + len, sizeof(text) - len, "}");
		assert_int_equal(read_one(text)->len, n);
		snprintf(text + len, sizeof(text) - len, ",\"name %d\":0}", (n + 1) / 2);
		assert_int_equal(read_text(text), TIDE_ESYNTAX);
	}
}

TEST_THAT(members_and_elements_are_found)
{
	read_one("{\"a\":[10,[11,[]],{\"x\":[]},13],\"b\":{\"c\":true},\"\":null}");
	uint32_t a = json_tape_member(&tape, 0, SLICE("a"));
	uint32_t b = json_tape_member(&tape, 0, SLICE("b"));

	assert_int_equal(tape.nodes[json_tape_member(&tape, b, SLICE("c"))].kind,
			 JSON_TAPE_TRUE);
	assert_int_equal(tape.nodes[json_tape_member(&tape, 0, SLICE(""))].kind,
			 JSON_TAPE_NULL);
	assert_int_equal(json_tape_member(&tape, 0, SLICE("c")), 0);
	assert_int_equal(tape.nodes[a].len, 4);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(tape.nodes[json_tape_element(&tape, a, 4)].integer, 13);
		assert_int_equal(tape.nodes[json_tape_element(&tape, a, 1)].integer, 10);
		assert_int_equal(tape.nodes[json_tape_element(&tape, a, 2)].kind,
				 JSON_TAPE_ARRAY);
		assert_int_equal(tape.nodes[json_tape_element(&tape, a, 3)].kind,
				 JSON_TAPE_OBJECT);
	}
	assert_int_equal(json_tape_element(&tape, a, 0), 0);
	assert_int_equal(json_tape_element(&tape, a, 5), 0);
	assert_int_equal(json_tape_behind(&tape, 0), tape.count);
}

TEST_THAT(depth_is_bounded)
{
	assert_int_equal(json_tape_read(&tape, SLICE("[[1]]"), 2, &err), TIDE_OK);
	assert_int_equal(json_tape_read(&tape, SLICE("[[[]]]"), 2, &err), TIDE_ELIMIT);
	assert_string_equal(err.text,
			    "the JSON has a value deeper than 2 levels at byte 3");
	/* Brackets in its texts are none. */
	assert_int_equal(
		json_tape_read(&tape, SLICE("[[[\"]\\\"]\",{\"}\":1}],7],8]"), 2, &err),
		TIDE_ELIMIT);
	assert_int_equal(tape.nodes[json_tape_element(&tape, 0, 2)].integer, 8);
	assert_int_equal(json_tape_read(&tape, SLICE("[[[\"]"), 2, &err), TIDE_ESYNTAX);
	assert_int_equal(tape.count, 0);
	assert_int_equal(json_tape_read(&tape, SLICE("[[[\"\\"), 2, &err), TIDE_ESYNTAX);
}

TEST_THAT(what_is_unreadable_hides_nothing_else)
{
	static const struct {
		const char *value, *why;
	} cases[] = {
		{ "18446744073709551615", "an integer of more than 64 bits at byte 14" },
		{ "1e309", "a number that is too large at byte 14" },
		{ "\"a\\u0000b\"", "a text with \\u0000 at byte 14" },
		{ "\"\\u0000\\ud83d\\ude00\"", "a text with \\u0000 at byte 14" },
		{ "\"\\ud800\"", "a text with half a surrogate pair at byte 14" },
		{ "\"\\udc00\"", "a text with half a surrogate pair at byte 14" },
		{ "\"\\ud800\\u0041\"", "a text with half a surrogate pair at byte 14" },
		{ "\"\\udc00\\udc00\"", "a text with half a surrogate pair at byte 14" },
		{ "\"\xff\"", "a text that is not UTF-8 at byte 14" },
		{ "\"\xc3\"", "a text that is not UTF-8 at byte 14" },
		{ "\"\\t\xed\xa0\x80\"", "a text that is not UTF-8 at byte 14" },
		{ "0,\"x\":0", "a name twice in an object that ends at byte 27" },
		{ "{},\"x\":[1],\"x\":0",
		  "a name twice in an object that ends at byte 36" },
	};
	char text[80], why[80];

	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof(text), "{\"a\":[7],\"x\":%s,\"z\":9}",
			 cases[i].value);
		snprintf(why, sizeof(why), "the JSON has %s", cases[i].why);
		assert_refused(text, why);
		uint32_t x = json_tape_member(&tape, 0, SLICE("x"));
		uint32_t z = json_tape_member(&tape, 0, SLICE("z"));
		assert_int_equal(tape.nodes[x].kind, JSON_TAPE_UNREADABLE);
		assert_int_equal(tape.nodes[z].integer, 9);
		assert_int_equal(json_tape_behind(&tape, 0), tape.count);
	}
	/* The value of an unreadable name is so too, and the first fault is told. */
	assert_refused("{\"\\u0000\":[1,1e309],\"z\":9}",
		       "the JSON has a text with \\u0000 at byte 2");
	assert_int_equal(tape.nodes[0].len, 2);
	assert_int_equal(tape.nodes[json_tape_member(&tape, 0, SLICE("z"))].integer, 9);
}

static void read_front_of(const char *text)
{
	json_tape_read_front(&tape, slice_from(text), 32);
}

TEST_THAT(a_front_has_what_ends_in_it)
{
	static const char *const ends[] = {
		"",
		",",
		",\"b",
		",\"b\"",
		",\"b\":",
		",\"b\": ",
		",\"b\":1",
		",\"b\":tru",
		",\"b\":\"x\\",
		",\"b\":\"x\xc3",
		",\"b\":[1,{\"c\":2}",
		",\"b\":[[",
		",\"b\":\"\\u12",
	};
	char text[80];

	for (size_t i = 0; i < COUNT(ends); i++) {
		snprintf(text, sizeof(text), "{\"a\":{\"z\":9}%s", ends[i]);
		read_front_of(text);
		uint32_t a = json_tape_member(&tape, 0, SLICE("a"));
		assert_int_equal(
			tape.nodes[json_tape_member(&tape, a, SLICE("z"))].integer, 9);
		assert_int_equal(tape.nodes[0].len, 1);
		assert_int_equal(json_tape_behind(&tape, 0), tape.count);
	}
	read_front_of("{\"a\":{\"b\":{\"z\":9,\"y\":1,\"y\":2,\"x\":12");
	uint32_t a = json_tape_member(&tape, 0, SLICE("a"));
	uint32_t b = json_tape_member(&tape, a, SLICE("b"));
	assert_int_equal(tape.nodes[b].len, 3);
	assert_int_equal(tape.nodes[json_tape_member(&tape, b, SLICE("y"))].kind,
			 JSON_TAPE_UNREADABLE);
	read_front_of("{\"a\":1}  ");
	assert_int_equal(tape.nodes[0].len, 1);
	static const char *const none[] = {
		"", "[1,2", "\"text", "12", "{\"a\":1,}", "{\"a\":1} x", "{\"a\" 1", "{a"
	};
	for (size_t i = 0; i < COUNT(none); i++) {
		read_front_of(none[i]);
		assert_int_equal(tape.count, 0);
	}
}

TEST_THAT(each_allocation_may_fail)
{
	const char text[] =
		"{\"a\":\"\\n\",\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,"
		"\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1}";
	int failed = 0;

	for (int n = 1; n < 10; n++) {
		json_tape_deinit(&tape);
		mem_fail_at = n;
		int rc = read_text(text);
		mem_fail_at = 0;
		if (rc == TIDE_OK)
			break;
		assert_int_equal(rc, TIDE_ELIMIT);
		assert_string_equal(err.text, "out of memory for the JSON");
		failed++;
	}
	assert_int_equal(failed, 3); /* nodes, texts, names */
}

RUN_TESTS(.teardown = tear_down)
