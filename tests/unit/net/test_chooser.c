#include "check.h"

#include <stdio.h>

#include "base/mem.h"
#include "net/chooser.h"

static const char *text_of(const struct choice *c)
{
	static char text[NAME_LEN_MAX + 16];

	switch (c->kind) {
	case CHOICE_MORE:
		return "more";
	case CHOICE_NONE:
		return "none";
	case CHOICE_CELL:
		snprintf(text, sizeof(text), "cell %u", c->cell);
		return text;
	default:
		snprintf(text, sizeof(text), "%.*s", (int)c->vhost_len, c->vhost);
		return text;
	}
}

struct row {
	const char *data, *expected;
};

/* Whatever comes behind the beginning of a request changes nothing, and before its end
 * there is no choice. */
static void check_rows(const struct row *rows, size_t count,
		       void (*read)(struct slice data, struct choice *out))
{
	struct choice c;

	for (size_t i = 0; i < count; i++) {
		read(slice_from(rows[i].data), &c);
		assert_string_equal(text_of(&c), rows[i].expected);
		for (size_t len = 0; len < strlen(rows[i].data); len++) {
			read((struct slice){ rows[i].data, len }, &c);
			if (c.kind != CHOICE_MORE)
				assert_string_equal(text_of(&c), rows[i].expected);
		}
	}
}

TEST_THAT(the_first_line_chooses_by_its_vhost)
{
	static const struct row rows[] = {
		{ "", "more" },
		{ "\r\n\n", "more" },
		{ "HELLO vhost=a", "more" },
		{ "AMQ", "more" },
		{ "AMQP\x01", "none" },
		{ "HELLO vhost=a\r\n", "a" },
		{ "\r\n\nHELLO user=u pass=x vhost=a name=b\nPUB - q 1\r\n", "a" },
		{ "@0 HELLO vhost=a\r\n", "a" },
		{ "HELLO vhost=%2Fa%25\r\n", "/a%" },
		{ "HELLO vhost=%2\r\n", "none" },
		{ "HELLO vhost=\r\n", "none" },
		{ "HELLO vhost=a vhost=b\r\n", "a" },
		{ "HELLO pass=vhost=a\r\n", "/" },
		{ "HELLO cell=2\r\n", "cell 2" },
		{ "HELLO vhost=a cell=2\r\n", "cell 2" },
		{ "HELLO cell=x\r\n", "none" },
		{ "HELLO\r\n", "/" },
		{ "HELLOvhost=a\r\n", "/" },
		{ "PUB - q vhost=a 1\r\nx\r\n", "/" },
		{ "what\n", "/" },
	};

	check_rows(rows, COUNT(rows), chooser_read);
}

TEST_THAT(the_host_of_connect_chooses)
{
	static const struct row rows[] = {
		{ "CONNECT\n", "more" },
		{ "CONNECT\nhost:a\n", "more" },
		{ "CONNECT\nhost:a\n\n", "a" },
		{ "\nSTOMP\r\naccept-version:1.2\r\nhost: a \r\nhost:b\r\n\r\n\0", "a" },
		{ "CONNECT\nhost:localhost\n\n", "/" },
		{ "CONNECT\nhost:mq.example.com\n\n", "/" },
		{ "CONNECT\nhost:\n\n", "/" },
		{ "CONNECT\n\n", "/" },
		{ "CONNECT host:a\n", "/" },
		{ "CONNECTED\nhost:a\n\n", "/" },
	};

	check_rows(rows, COUNT(rows), chooser_read);
}

TEST_THAT(the_target_of_a_request_chooses)
{
	static const struct row rows[] = {
		{ "GET /api/vhosts/a/queues/q HTTP/1.1", "more" },
		{ "GET /api/vhosts/a/queues/q HTTP/1.1\r\n", "a" },
		{ "\r\nPUT /api/vhosts/a HTTP/1.1\r\n", "a" },
		{ "GET /api/vhosts/%2Fa?vhost=b HTTP/1.1\r\n", "/a" },
		{ "GET http://mq:7311/api/vhosts/a HTTP/1.1\r\n", "a" },
		{ "GET http://mq:7311 HTTP/1.1\r\n", "none" },
		{ "GET /api/vhosts HTTP/1.1\r\n", "none" },
		{ "PUT /api/vhosts/a?cell=3 HTTP/1.1\r\n", "cell 3" },
		{ "GET /api/vhosts?cell=1 HTTP/1.1\r\n", "cell 1" },
		{ "GET /stomp?x=1&vhost=%61 HTTP/1.1\r\n", "a" },
		{ "GET /api/stats?vhosts=a HTTP/1.1\r\n", "none" },
		{ "GET /api/vhosts//queues HTTP/1.1\r\n", "none" },
		{ "OPTIONS * HTTP/1.1\r\n", "none" },
		{ "x\n", "none" },
	};

	check_rows(rows, COUNT(rows), chooser_read_http);
}

TEST_THAT(what_is_too_long_says_nothing)
{
	char *data = mem_alloc(CHOOSER_MAX);
	struct choice c;

	memset(data, 'x', CHOOSER_MAX);
	chooser_read((struct slice){ data, CHOOSER_MAX - 1 }, &c);
	assert_int_equal(c.kind, CHOICE_MORE);
	chooser_read((struct slice){ data, CHOOSER_MAX }, &c);
	assert_int_equal(c.kind, CHOICE_NONE);
	chooser_read_http((struct slice){ data, CHOOSER_MAX }, &c);
	assert_int_equal(c.kind, CHOICE_NONE);
	memset(data, '\n', CHOOSER_MAX);
	chooser_read((struct slice){ data, CHOOSER_MAX }, &c);
	assert_int_equal(c.kind, CHOICE_NONE);
	memcpy(data, "CONNECT\n", 8);
	memset(data + 8, 'h', CHOOSER_MAX - 8);
	chooser_read((struct slice){ data, CHOOSER_MAX }, &c);
	assert_int_equal(c.kind, CHOICE_NONE);
	memset(data, 'a', 300);
	memcpy(data, "HELLO vhost=", 12);
	data[300] = '\n';
	chooser_read((struct slice){ data, 301 }, &c);
	assert_int_equal(c.kind, CHOICE_NONE);
	mem_free(data);
}

RUN_TESTS()
