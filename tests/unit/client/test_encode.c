#include "check.h"
#include "failing_mem.h"
#include "client/encode.h"

static void check(const struct tidemq_publication *p, unsigned channel, const char *line)
{
	struct buf out = { 0 };
	struct tidemq_error err;
	assert_int_equal(encode_publication(&out, channel, p, &err), TIDEMQ_OK);
	assert_buf(&out, line);
	buf_deinit(&out);
}

static void check_bad(const struct tidemq_publication *p, const char *sentence)
{
	struct buf out = { 0 };
	struct tidemq_error err;
	assert_int_equal(encode_publication(&out, 0, p, &err), TIDEMQ_EINVAL);
	assert_non_null(strstr(err.text, sentence));
	buf_deinit(&out);
}

TEST_THAT(a_publication_names_what_is_not_the_default)
{
	check(&(struct tidemq_publication){ 0 }, 0, "PUB - -");
	check(&(struct tidemq_publication){ .exchange = "orders", .key = "a.b" }, 3,
	      "@3 PUB orders a.b");
	check(&(struct tidemq_publication){ .key = "q",
					    .priority = 9,
					    .delay_ms = 1500,
					    .ttl_ms = 60000,
					    .dedupe_id = "order 42",
					    .must = true },
	      0, "PUB - q pri=9 delay=1500 ttl=60000 id=order%2042 must");
	check(&(struct tidemq_publication){ .key = "q", .transient = true }, 0,
	      "PUB - q durable=0");
	check(&(struct tidemq_publication){ .key = "t", .has_expected_offset = true }, 0,
	      "PUB - t expect=0");
}

TEST_THAT(header_values_are_percent_encoded)
{
	const struct tidemq_header headers[] = {
		{ "type", "text/plain", 10 },
		{ "note", "50% off\r\n", 9 },
		{ "empty", "", 0 },
		{ "zero", "\0", 1 },
	};
	check(&(struct tidemq_publication){ .key = "q",
					    .headers = headers,
					    .header_count = 4 },
	      0,
	      "PUB - q h:type=text/plain h:note=50%25%20off%0D%0A h:empty= h:zero=%00");
}

TEST_THAT(what_would_break_the_framing_is_refused)
{
	const struct tidemq_header space = { "a b", "x", 1 };
	const struct tidemq_header equals = { "a=b", "x", 1 };
	check_bad(&(struct tidemq_publication){ .exchange = "a b" }, "exchange");
	check_bad(&(struct tidemq_publication){ .key = "a\nPING" }, "key");
	check_bad(&(struct tidemq_publication){ .headers = &space, .header_count = 1 },
		  "header");
	check_bad(&(struct tidemq_publication){ .headers = &equals, .header_count = 1 },
		  "'='");
	check_bad(&(struct tidemq_publication){ .header_count = 65 }, "64 headers");
	check_bad(&(struct tidemq_publication){ .priority = 256 }, "0-255");
	check_bad(&(struct tidemq_publication){ .delay_ms = -1 }, "negative");
}

/* Of a line that is sent as it is. */
static int encode(struct buf *out, struct slice text, struct slice payload,
		  unsigned *channel)
{
	struct tidemq_error err;
	struct encode_line line;
	int rc = encode_inspect(text, &line, &err);
	if (rc != TIDEMQ_OK)
		return rc;
	*channel = line.channel;
	return encode_request(out, &line, NULL, payload, &err);
}

static void check_line(const char *line, int status, unsigned channel, bool has_payload)
{
	struct buf out = { 0 };
	unsigned got;

	assert_int_equal(encode(&out, slice_from(line), SLICE(""), &got), status);
	if (status == TIDEMQ_OK) {
		assert_int_equal(got, channel);
		assert_int_equal(buf_len(&out),
				 strlen(line) + (has_payload ? 6 : 2)); /* " 0\r\n\r\n" */
	}
	buf_deinit(&out);
}

TEST_THAT(a_line_tells_its_channel_and_whether_a_payload_follows)
{
	check_line("PING", TIDEMQ_OK, 0, false);
	check_line("pub - q", TIDEMQ_OK, 0, true);
	check_line("@65535 PUB - q", TIDEMQ_OK, 65535, true);
	check_line("@7 OPEN", TIDEMQ_OK, 7, false);
	check_line("PUBLISH", TIDEMQ_OK, 0, false);
	check_line("", TIDEMQ_EINVAL, 0, false);
	check_line("@1", TIDEMQ_EINVAL, 0, false);
	check_line("@65536 PING", TIDEMQ_EINVAL, 0, false);
	check_line("@x PING", TIDEMQ_EINVAL, 0, false);
	check_line("PING\nPING", TIDEMQ_EINVAL, 0, false);
	check_line("PING\r", TIDEMQ_EINVAL, 0, false);
}

TEST_THAT(a_payload_is_behind_its_length)
{
	unsigned channel;
	struct buf out = { 0 };
	assert_int_equal(encode(&out, SLICE("PUB - q"), SLICE("a\r\nb"), &channel),
			 TIDEMQ_OK);
	assert_buf(&out, "PUB - q 4\r\na\r\nb\r\n");
	buf_clear(&out);
	assert_int_equal(encode(&out, SLICE("PUB - q"), SLICE(""), &channel), TIDEMQ_OK);
	assert_buf(&out, "PUB - q 0\r\n\r\n");
	buf_clear(&out);
	assert_int_equal(encode(&out, SLICE("PING"), SLICE(""), &channel), TIDEMQ_OK);
	assert_buf(&out, "PING\r\n");
	assert_int_equal(encode(&out, SLICE("PING"), SLICE("x"), &channel),
			 TIDEMQ_EINVAL);
	buf_deinit(&out);
}

TEST_THAT(an_id_is_added_behind_the_options)
{
	struct tidemq_error err;
	struct encode_line line;
	struct buf out = { 0 };
	assert_int_equal(encode_inspect(SLICE("@2 PUB - q must"), &line, &err),
			 TIDEMQ_OK);
	assert_slice(line.verb, "PUB");
	assert_slice(line.words, "- q must");
	assert_int_equal(encode_request(&out, &line, "a-1", SLICE("xy"), &err),
			 TIDEMQ_OK);
	assert_buf(&out, "@2 PUB - q must id=a-1 2\r\nxy\r\n");
	buf_deinit(&out);
}

TEST_THAT(a_payload_without_memory_is_refused)
{
	unsigned channel;
	struct buf out = { 0 };
	mem_fail_at = 1;
	assert_int_equal(encode(&out, SLICE("PUB - q"), SLICE("x"), &channel),
			 TIDEMQ_ENOMEM);
	assert_int_equal(buf_len(&out), 0);
	buf_deinit(&out);
}

TEST_THAT(a_line_over_64_kib_is_refused)
{
	static char line[ENCODE_LINE_MAX];
	unsigned channel;
	struct buf out = { 0 };
	memset(line, 'x', sizeof(line));
	assert_int_equal(encode(&out, (struct slice){ line, sizeof(line) - 22 },
				SLICE(""), &channel),
			 TIDEMQ_EINVAL);
	assert_int_equal(buf_len(&out), 0);
	assert_int_equal(encode(&out, (struct slice){ line, sizeof(line) - 23 },
				SLICE(""), &channel),
			 TIDEMQ_OK);
	buf_deinit(&out);
}

RUN_TESTS()
