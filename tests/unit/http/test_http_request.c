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

struct asked {
	uint64_t max, delay;
	int64_t wait_ms, far;
	bool is_ok;
	unsigned kind;
};

#define ROW(n, t, field, least, most, otherwise)                               \
	{                                                                      \
		.name = n, .type = t, .offset = offsetof(struct asked, field), \
		.min = least, .max = most, .fallback = otherwise               \
	}

static const struct parameter numbers[] = {
	ROW("max", PARAMETER_UINT, max, 1, 10, 1),
	ROW("delay", PARAMETER_UINT, delay, 1, 10, 4),
	ROW("wait", PARAMETER_DURATION, wait_ms, 0, 5000, 0),
	ROW("far", PARAMETER_INT, far, -5, 5, 0),
	ROW("ok", PARAMETER_FLAG, is_ok, 0, 0, 0),
	{ 0 },
};
static const struct parameter choice[] = {
	{ .name = "kind",
	  .type = PARAMETER_CHOICE,
	  .offset = offsetof(struct asked, kind),
	  .what = "up, down or none" },
	{ 0 },
};

TEST_THAT(parameters_come_from_the_body_then_the_query)
{
	struct http_request *q = read_one("max=7&wait=1s&kind=a+b%26c",
					  "{\"max\":9,\"ok\":true,\"far\":-3}");
	struct asked got = { 0 };
	struct error err;

	assert_slice(http_request_path(q, "vhost"), "/");
	assert_slice(http_request_path(q, "queue"), "jobs");
	assert_null(http_request_path(q, "topic").data);
	assert_int_equal(http_request_read(q, numbers, &got, &err), TIDE_OK);
	assert_int_equal(got.max, 9);
	assert_int_equal(got.delay, 4);
	assert_int_equal(got.wait_ms, 1000);
	assert_int_equal(got.far, -3);
	assert_true(got.is_ok);
	assert_slice(http_request_text(q, "kind"), "a b&c");
	assert_null(http_request_name(q, "delay").data);
	assert_slice(http_request_body(q), "{\"max\":9,\"ok\":true,\"far\":-3}");
	assert_non_null(http_request_json(q));
	expect_right(q);
}

TEST_THAT(what_is_wrong_is_told)
{
	static const struct {
		const char *query, *body;
		const struct parameter *rows;
		const char *text;
	} cases[] = {
		{ "max=11&wait=x", "{\"ok\":[1]}", numbers,
		  "max: expected a number from 1 to 10, not '11'" },
		{ "", "{\"ok\":[1]}", numbers,
		  "ok: expected a string, a number or a boolean, not '[1]'" },
		{ "far=-6", "", numbers,
		  "far: expected a number from -5 to 5, not '-6'" },
		{ "wait=6s", "", numbers,
		  "wait: expected a duration like 250ms, 30s, 5m, 2h or 1d, from 0s to "
		  "5s, "
		  "not '6s'" },
		{ "kind=or", "", choice, "kind: expected up, down or none, not 'or'" },
	};
	struct asked got = { 0 };
	struct http_request *q;
	struct error err;

	for (size_t i = 0; i < COUNT(cases); i++) {
		q = read_one(cases[i].query, cases[i].body);
		assert_int_equal(http_request_read(q, cases[i].rows, &got, &err),
				 TIDE_ESYNTAX);
		assert_string_equal(err.text, cases[i].text);
		drop(q);
	}
	q = read_one("kind=none", "");
	assert_int_equal(http_request_read(q, choice, &got, &err), TIDE_OK);
	assert_int_equal(got.kind, 2);
	drop(q);
	q = read_one("", "");
	assert_int_equal(http_request_read(q, choice, &got, &err), TIDE_OK);
	assert_int_equal(got.kind, 0);
	drop(q);
	q = read_one("", "{\"kind\":\"a b\"}");
	http_request_name(q, "kind");
	expect_wrong(
		q, "kind: expected 1-255 bytes of UTF-8 without white space and control "
		   "characters, not 'a b'");
	q = read_one("", "");
	http_request_refuse(q, "kind", SLICE("x"), "a %s", "y");
	http_request_refuse(q, "wait", SLICE("x"), "a z");
	expect_wrong(q, "kind: expected a y, not 'x'");
	q = read_one("", "{\"options\":3}");
	http_request_args(q, "options", &(struct args){ 0 });
	expect_wrong(q, "options: expected an object, not '3'");
}

TEST_THAT(options_are_pairs)
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

TEST_THAT(what_cannot_be_read_is_refused)
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

RUN_TESTS()
