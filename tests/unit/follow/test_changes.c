/* In what two messages differ. */

#include "check.h"

#include "base/buf.h"
#include "follow/changes.h"

static const struct msg_header some[] = { { SLICE("tier"), SLICE("gold") },
					  { SLICE("same"), SLICE("1") } };
static const struct msg_header others[] = { { SLICE("same"), SLICE("1") },
					    { SLICE("new"), SLICE("") } };

static struct msg *make(const struct msg_header *headers, int priority,
			const char *exchange, const char *payload)
{
	const struct msg spec = { .id = 1,
				  .priority = (uint8_t)priority,
				  .header_count = 2,
				  .exchange = slice_from(exchange),
				  .key = SLICE("k"),
				  .headers = headers,
				  .payload = payload,
				  .payload_len = strlen(payload) };

	return msg_create(&spec);
}

static unsigned compare(const struct msg *a, const struct msg *b, struct buf *out)
{
	struct json j;
	struct changes c = { .out = &j, .one = "live", .other = "shadow" };

	*out = (struct buf){ 0 };
	j = (struct json){ .out = out };
	json_array_begin(&j);
	changes_add(&c, a, b);
	json_array_end(&j);
	return c.count;
}

TEST_THAT(all_differences_are_told)
{
	struct msg *a = make(some, 1, "", "hello"), *b = make(others, 2, "x", "hi");
	struct changes counted = { .out = NULL };
	struct buf out;

	assert_int_equal(compare(a, b, &out), 5);
	assert_string_equal(
		buf_cstr(&out),
		"[{\"field\":\"exchange\",\"live\":\"-\",\"shadow\":\"x\"},"
		"{\"field\":\"priority\",\"live\":1,\"shadow\":2},"
		"{\"field\":\"header\",\"name\":\"tier\",\"live\":\"gold\",\"shadow\":"
		"null},"
		"{\"field\":\"header\",\"name\":\"new\",\"live\":null,\"shadow\":\"\"},"
		"{\"field\":\"payload\",\"live_bytes\":5,\"shadow_bytes\":2}]");
	changes_add(&counted, a, b);
	assert_int_equal(counted.count, 5);
	buf_deinit(&out);
	msg_unref(a);
	msg_unref(b);
}

TEST_THAT(equal_messages_have_none)
{
	struct msg *a = make(some, 1, "x", "hello"), *b = make(some, 1, "x", "hello");
	struct buf out;

	assert_int_equal(compare(a, b, &out), 0);
	assert_string_equal(buf_cstr(&out), "[]");
	buf_deinit(&out);
	assert_int_equal(compare(a, a, &out), 0);
	buf_deinit(&out);
	msg_unref(a);
	msg_unref(b);
}

RUN_TESTS()
