#include "check.h"

#include <stdlib.h>

#include "cases.h"
#include "http/reading.h"

static bool is_as_wanted(const struct reading *r, unsigned wanted)
{
	/* What is too long for this broker is well-formed. */
	if (wanted == 413)
		return !r->why && r->body.left == UINT64_MAX;
	if (wanted != 200)
		return r->why && strtoul(r->why, NULL, 10) == wanted;
	return reading_is_whole(r) &&
	       (buf_len(&r->content) == 0 || slice_is(buf_slice(&r->content), "{}"));
}

static void expect(const struct cases *c, struct slice request, size_t size)
{
	unsigned wanted = (unsigned)strtoul(c->line, NULL, 10);
	struct reading r;
	size_t left = reading_pieces(&r, request, size);

	if (!is_as_wanted(&r, wanted) || (wanted == 200 && left > 0))
		fail_msg("line %u in pieces of %zu: %s", c->number, size,
			 r.why ? r.why : "taken");
	reading_forget(&r);
}

TEST_THAT(each_case_has_its_status_in_any_pieces)
{
	struct cases c;

	cases_open(&c, "http_requests.txt");
	while (cases_next(&c)) {
		struct buf request = { 0 };

		cases_bytes(strchr(c.line, ' ') + 1, &request);
		/* A long one is scanned anew for each piece of this test. */
		for (size_t size = buf_len(&request) > 2000 ? 1000 : 1; size < 10; size++)
			expect(&c, buf_slice(&request), size);
		expect(&c, buf_slice(&request), 1000);
		expect(&c, buf_slice(&request), SIZE_MAX);
		buf_deinit(&request);
	}
	cases_close(&c);
}

static void read_whole(struct reading *r, const char *text)
{
	assert_int_equal(reading_pieces(r, slice_from(text), SIZE_MAX), 0);
	assert_null(r->why);
	assert_true(reading_is_whole(r));
}

TEST_THAT(a_head_has_its_parts)
{
	struct reading r;

	read_whole(&r, "PUT /a?b HTTP/1.1\r\nHost: h:1\r\nX-One: \t a b \r\nx-two:\r\n"
		       "Connection: x ,\tCLOSE\r\nX-One: c\r\n\r\n");
	assert_string_equal(r.head.method, "PUT");
	assert_string_equal(r.head.target, "/a?b");
	assert_string_equal(r.head.host, "h:1");
	assert_int_equal(r.head.field_count, 5);
	assert_string_equal(http_head_field(&r.head, "x-ONE"), "a b");
	assert_string_equal(http_head_field(&r.head, "X-Two"), "");
	assert_null(http_head_field(&r.head, "X-Three"));
	assert_true(http_head_has_word(&r.head, "connection", "close"));
	assert_false(http_head_has_word(&r.head, "connection", "clos"));
	assert_true(http_head_has_word(&r.head, "X-One", "c"));
	assert_true(r.head.is_last);
	reading_forget(&r);
}

static void expect_target(const char *target, const char *host, const char *path)
{
	struct reading r;
	char text[128];

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: other\r\n\r\n", target);
	read_whole(&r, text);
	assert_string_equal(r.head.host, host);
	assert_string_equal(r.head.target, path);
	reading_forget(&r);
}

TEST_THAT(the_host_of_a_target_counts)
{
	expect_target("/", "other", "/");
	expect_target("/x?y=http://a/b", "other", "/x?y=http://a/b");
	expect_target("http://a", "a", "/");
	expect_target("http://a/", "a", "/");
	expect_target("hTTps://a:80/b?c", "a:80", "/b?c");
	expect_target("http://a?c/d", "a", "/?c/d");
	expect_target("http://[::1]:7311/b", "[::1]:7311", "/b");
}

TEST_THAT(the_old_version_closes_unless_it_is_asked_not_to)
{
	struct reading r;

	read_whole(&r, "GET / HTTP/1.0\r\n\r\n");
	assert_true(r.head.is_old && r.head.is_last);
	assert_null(r.head.host);
	reading_forget(&r);
	read_whole(&r, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
	assert_true(r.head.is_old && !r.head.is_last);
	reading_forget(&r);
}

RUN_TESTS()
