#include "check.h"

#include <stdlib.h>

#include "cases.h"
#include "http/http_body.h"

/* A request as far as it was read, and what came of it. */
struct reading {
	struct http_scan scan;
	struct http_head head;
	struct http_body body;
	char *text; /* of the head; NULL: its end has not come */
	struct buf content;
	unsigned status; /* 0: it was not refused */
	struct error err;
};

static size_t read_head(struct reading *r, struct slice data)
{
	size_t len;

	if (r->scan.at == 0 && slice_has_prefix(data, "\r\n"))
		return 2;
	r->status = http_head_scan(&r->scan, data, HTTP_HEAD_MAX, &len, &r->err);
	if (r->status || len == 0)
		return 0;
	r->text = strndup(data.data, len);
	r->status = http_head_read(&r->head, r->text, &r->err);
	http_body_init(&r->body, &r->head);
	return len;
}

static size_t read_body(struct reading *r, struct slice data)
{
	struct slice piece;
	size_t used;

	r->status = http_body_feed(&r->body, (char *)data.data, data.len, &used, &piece,
				   &r->err);
	buf_append_slice(&r->content, piece);
	return used;
}

static bool is_whole(const struct reading *r)
{
	return r->text && r->body.state == HTTP_BODY_DONE;
}

/* Gives how much of it was used, up to the end of the request. */
static size_t feed(struct reading *r, struct slice data)
{
	size_t at = 0, used = 1;

	while (at < data.len && used > 0 && !r->status && !is_whole(r)) {
		struct slice rest = slice_skip(data, at);

		used = r->text ? read_body(r, rest) : read_head(r, rest);
		at += used;
	}
	return at;
}

/* In pieces of so many bytes; gives how much is left over. */
static size_t read_pieces(struct reading *r, struct slice all, size_t size)
{
	struct buf in = { 0 };
	size_t left;

	*r = (struct reading){ 0 };
	for (size_t at = 0; at < all.len && !r->status && !is_whole(r); at += size) {
		size_t n = all.len - at < size ? all.len - at : size;

		buf_append(&in, all.data + at, n);
		buf_consume(&in, feed(r, buf_slice(&in)));
	}
	left = buf_len(&in);
	buf_deinit(&in);
	return left;
}

static void forget(struct reading *r)
{
	free(r->text);
	buf_deinit(&r->content);
}

static void expect(const struct cases *c, struct slice request, size_t size)
{
	unsigned wanted = (unsigned)strtoul(c->line, NULL, 10);
	struct reading r;
	size_t left = read_pieces(&r, request, size);
	/* What is too long for this broker is well-formed. */
	bool is_good = wanted == 413   ? r.status == 0 && r.body.left == UINT64_MAX
		       : wanted == 200 ? r.status == 0 && is_whole(&r) && left == 0 &&
						 (buf_len(&r.content) == 0 ||
						  slice_is(buf_slice(&r.content), "{}"))
				       : r.status == wanted && r.err.text[0] != '\0';

	if (!is_good)
		fail_msg("line %u in pieces of %zu: status %u (%s)", c->number, size,
			 r.status, r.status ? r.err.text : "");
	forget(&r);
}

static void each_case_has_its_status_in_any_pieces(void **state)
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
	assert_int_equal(read_pieces(r, slice_from(text), SIZE_MAX), 0);
	assert_int_equal(r->status, 0);
	assert_true(is_whole(r));
}

static void a_head_has_its_parts(void **state)
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
	assert_true(http_head_has_word(&r.head, "connection", "close", false));
	assert_false(http_head_has_word(&r.head, "connection", "close", true));
	assert_true(http_head_has_word(&r.head, "X-One", "c", true));
	assert_true(r.head.is_last);
	forget(&r);
}

static void expect_target(const char *target, const char *host, const char *path)
{
	struct reading r;
	char text[128];

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: other\r\n\r\n", target);
	read_whole(&r, text);
	assert_string_equal(r.head.host, host);
	assert_string_equal(r.head.target, path);
	forget(&r);
}

static void the_host_of_a_target_counts(void **state)
{
	expect_target("/", "other", "/");
	expect_target("/x?y=http://a/b", "other", "/x?y=http://a/b");
	expect_target("http://a", "a", "/");
	expect_target("http://a/", "a", "/");
	expect_target("hTTps://a:80/b?c", "a:80", "/b?c");
	expect_target("http://a?c/d", "a", "/?c/d");
	expect_target("http://[::1]:7311/b", "[::1]:7311", "/b");
}

static void the_old_version_closes_unless_it_is_asked_not_to(void **state)
{
	struct reading r;

	read_whole(&r, "GET / HTTP/1.0\r\n\r\n");
	assert_true(r.head.is_old && r.head.is_last);
	assert_null(r.head.host);
	forget(&r);
	read_whole(&r, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
	assert_true(r.head.is_old && !r.head.is_last);
	forget(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case_has_its_status_in_any_pieces),
		cmocka_unit_test(a_head_has_its_parts),
		cmocka_unit_test(the_host_of_a_target_counts),
		cmocka_unit_test(the_old_version_closes_unless_it_is_asked_not_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
