#include "check.h"

#include "base/args.h"
#include "base/mem.h"
#include "http/http_request.h"

static int handle(struct http_request *q, struct reply *r, struct error *err)
{
	return TIDE_OK;
}

static const struct http_route route = {
	"POST",
	"/api/vhosts/{vhost}/queues/{queue}/get",
	"max wait kind delay far ok options",
	0,
	handle,
	NULL,
};

static struct http_request *make(const char *queue, const char *query, const char *body)
{
	struct http_request *q = mem_zalloc(sizeof(*q));

	q->match.route = &route;
	q->match.count = 2;
	q->match.values[0] = SLICE("%2F");
	q->match.values[1] = slice_from(queue);
	q->query = slice_from(query);
	buf_append_text(&q->body, body);
	return q;
}

static void drop(struct http_request *q)
{
	http_request_deinit(q);
	mem_free(q);
}

static struct http_request *read_one(const char *query, const char *body)
{
	struct http_request *q = make("jobs", query, body);
	struct error err = { 0 };

	assert_int_equal(http_request_decode(q, &err), TIDE_OK);
	assert_int_equal(http_request_read_body(q, &err), TIDE_OK);
	return q;
}

static void expect_refused(const char *query, const char *body, const char *text)
{
	struct http_request *q = make("jobs", query, body);
	struct error err = { 0 };
	int rc = http_request_decode(q, &err);

	if (rc == TIDE_OK)
		rc = http_request_read_body(q, &err);
	assert_int_equal(rc, TIDE_ESYNTAX);
	assert_string_equal(err.text, text);
	drop(q);
}

static void expect_wrong(struct http_request *q, const char *text)
{
	struct error err = { 0 };

	assert_int_equal(http_request_check(q, &err), TIDE_ESYNTAX);
	assert_string_equal(err.text, text);
	drop(q);
}

static void expect_right(struct http_request *q)
{
	struct error err = { 0 };

	assert_int_equal(http_request_check(q, &err), TIDE_OK);
	drop(q);
}

static void parameters_come_from_the_body_then_the_query(void **state)
{
	struct http_request *q = read_one("max=7&wait=1s&kind=a+b%26c",
					  "{\"max\":9,\"ok\":true,\"far\":-3}");

	assert_slice(http_request_path(q, "vhost"), "/");
	assert_slice(http_request_path(q, "queue"), "jobs");
	assert_null(http_request_path(q, "topic").data);
	assert_int_equal(http_request_uint(q, "max", (struct number_limits){ 1, 10 }, 1),
			 9);
	assert_int_equal(
		http_request_uint(q, "delay", (struct number_limits){ 1, 10 }, 4), 4);
	assert_int_equal(
		http_request_duration(q, "wait", (struct number_limits){ 0, 5000 }),
		1000);
	assert_slice(http_request_text(q, "kind"), "a b&c");
	assert_int_equal(http_request_int(q, "far", -5, 5, 0), -3);
	assert_true(http_request_flag(q, "ok"));
	assert_false(http_request_flag(q, "delay"));
	assert_null(http_request_name(q, "delay").data);
	assert_slice(http_request_body(q), "{\"max\":9,\"ok\":true,\"far\":-3}");
	assert_non_null(http_request_json(q));
	expect_right(q);
}

static void a_choice_is_one_of_its_words(void **state)
{
	struct http_request *q = read_one("kind=or", "");

	assert_int_equal(http_request_choice(q, "wait", "up, down or none"), 0);
	http_request_choice(q, "kind", "up, down or none");
	expect_wrong(q, "kind: expected up, down or none, not 'or'");
	q = read_one("kind=none", "");
	assert_int_equal(http_request_choice(q, "kind", "up, down or none"), 2);
	expect_right(q);
}

static void the_first_wrong_parameter_is_told(void **state)
{
	struct http_request *q = read_one("max=11&wait=x", "{\"ok\":[1]}");

	http_request_uint(q, "max", (struct number_limits){ 1, 10 }, 1);
	http_request_duration(q, "wait", (struct number_limits){ 0, 5000 });
	expect_wrong(q, "max: expected a number from 1 to 10, not '11'");
	q = read_one("", "{\"ok\":[1]}");
	http_request_flag(q, "ok");
	expect_wrong(q, "ok: expected a string, a number or a boolean, not '[1]'");
	q = read_one("", "{\"kind\":\"a b\"}");
	http_request_name(q, "kind");
	expect_wrong(
		q, "kind: expected 1-255 bytes of UTF-8 without white space and control "
		   "characters, not 'a b'");
	q = read_one("far=-6", "");
	http_request_int(q, "far", -5, 5, 0);
	expect_wrong(q, "far: expected a number from -5 to 5, not '-6'");
	q = read_one("", "");
	http_request_refuse(q, "kind", SLICE("x"), "a %s", "y");
	http_request_refuse(q, "wait", SLICE("x"), "a z");
	expect_wrong(q, "kind: expected a y, not 'x'");
	q = read_one("", "{\"options\":3}");
	http_request_args(q, "options", &(struct args){ 0 });
	expect_wrong(q, "options: expected an object, not '3'");
}

static void options_are_pairs(void **state)
{
	struct http_request *q = read_one(
		"",
		"{\"options\":{\"a\":5,\"b\":true,\"c\":false,\"d\":null,\"e\":\"x\"}}");
	struct args args;

	http_request_args(q, "options", &args);
	assert_int_equal(args.count, 4);
	assert_string_equal(args_get(&args, "a"), "5");
	assert_string_equal(args_get(&args, "b"), "1");
	assert_string_equal(args_get(&args, "c"), "0");
	assert_string_equal(args_get(&args, "e"), "x");
	args_deinit(&args);
	http_request_args(q, "max", &args);
	assert_int_equal(args.count, 0);
	expect_right(q);
}

static void what_cannot_be_read_is_refused(void **state)
{
	expect_refused("max=%4", "", "%4: two hexadecimal digits follow a '%'");
	expect_refused(
		"size=4", "",
		"POST /api/vhosts/{vhost}/queues/{queue}/get has no parameter 'size'; it "
		"takes: max wait kind delay far ok options");
	expect_refused("", "[]", "the body must be a JSON object");
	expect_refused(
		"", "{\"max\":1,\"max\":2}",
		"the body is not JSON: line 1, column 14: duplicate object key near "
		"'\"max\"'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_come_from_the_body_then_the_query),
		cmocka_unit_test(a_choice_is_one_of_its_words),
		cmocka_unit_test(the_first_wrong_parameter_is_told),
		cmocka_unit_test(options_are_pairs),
		cmocka_unit_test(what_cannot_be_read_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
