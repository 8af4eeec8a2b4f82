#include "check.h"

#include "base/msg.h"
#include "failing_mem.h"

static const struct msg_header two_headers[] = {
	{ { "tier", 4 }, { "gold", 4 } },
	{ { "empty", 5 }, { NULL, 0 } },
};

static struct msg full_spec(void)
{
	return (struct msg){
		.id = 7,
		.ts_unix_ms = 1000,
		.due_unix_ms = 2000,
		.expires_unix_ms = 3000,
		.priority = MSG_PRIORITY_MAX,
		.header_count = COUNT(two_headers),
		.exchange = SLICE("orders"),
		.key = SLICE("eu.new"),
		.headers = two_headers,
		.payload = "a\0b\r\n",
		.payload_len = 5,
		.dedupe_id = "order 42",
		.dedupe_len = 8,
	};
}

static void check_full(const struct msg *m)
{
	assert_int_equal(m->id, 7);
	assert_int_equal(m->ts_unix_ms, 1000);
	assert_int_equal(m->due_unix_ms, 2000);
	assert_int_equal(m->expires_unix_ms, 3000);
	assert_int_equal(m->priority, 255);
	assert_slice(m->exchange, "orders");
	assert_slice(m->key, "eu.new");
	assert_int_equal(m->header_count, 2);
	assert_slice(m->headers[0].name, "tier");
	assert_slice(m->headers[0].value, "gold");
	assert_int_equal(m->payload_len, 5);
	assert_memory_equal(m->payload, "a\0b\r\n", 5);
	assert_slice(msg_dedupe_id(m), "order 42");
}

TEST_THAT(a_message_copies_what_it_is_made_from)
{
	char key[] = "eu.new";
	struct msg spec = full_spec();
	spec.key = (struct slice){ key, 6 };
	struct msg *m = msg_create(&spec);
	memset(key, 'x', sizeof(key));
	check_full(m);
	assert_int_equal(m->refs, 1);
	msg_unref(m);
}

TEST_THAT(everything_is_inside_the_one_allocation)
{
	struct msg spec = full_spec();
	struct msg *m = msg_create(&spec);
	const char *begin = (const char *)m;
	assert_in_range(m->headers[1].name.data - begin, sizeof(*m), m->bytes);
	assert_ptr_equal(m->dedupe_id, m->payload + m->payload_len);
	assert_int_equal(m->dedupe_id + m->dedupe_len - begin, m->bytes);
	assert_int_equal(m->bytes, sizeof(*m) + 2 * sizeof(struct msg_header) + 6 + 6 +
					   8 + 5 + 5 + 8);
	msg_unref(m);
}

TEST_THAT(an_empty_message_is_a_message)
{
	struct msg spec = { 0 };
	struct msg *m = msg_create(&spec);
	assert_int_equal(m->exchange.len, 0);
	assert_int_equal(m->payload_len, 0);
	assert_non_null(m->payload);
	assert_int_equal(m->bytes, sizeof(*m));
	msg_unref(m);
	msg_unref(NULL);
}

TEST_THAT(the_payload_may_be_filled_in_later)
{
	struct msg spec = full_spec();
	spec.payload = NULL;
	struct msg *m = msg_create(&spec);
	memcpy(msg_payload_room(m), "a\0b\r\n", 5);
	check_full(m);
	msg_unref(m);
}

TEST_THAT(a_message_makes_an_equal_one)
{
	struct msg spec = full_spec();
	struct msg *m = msg_create(&spec);
	struct msg *twin = msg_create(msg_ref(m));
	assert_int_equal(twin->refs, 1);
	msg_unref(m);
	assert_int_equal(twin->bytes, m->bytes);
	msg_unref(m);
	check_full(twin);
	msg_unref(twin);
}

TEST_THAT(a_reference_keeps_it)
{
	struct msg spec = full_spec();
	struct msg *m = msg_create(&spec);
	assert_ptr_equal(msg_ref(m), m);
	msg_unref(m);
	check_full(m);
	msg_unref(m);
}

TEST_THAT(headers_are_found_by_their_exact_name)
{
	struct msg spec = full_spec();
	struct msg *m = msg_create(&spec);
	assert_slice(msg_header(m, SLICE("tier")), "gold");
	assert_null(msg_header(m, SLICE("Tier")).data);
	assert_null(msg_header(m, SLICE("tie")).data);
	assert_null(msg_header(m, SLICE("")).data);
	/* Empty is not the same as missing. */
	assert_non_null(msg_header(m, SLICE("empty")).data);
	assert_int_equal(msg_header(m, SLICE("empty")).len, 0);
	msg_unref(m);
}

TEST_THAT(the_first_of_two_equal_headers_counts)
{
	const struct msg_header twice[] = { { { "x", 1 }, { "1", 1 } },
					    { { "x", 1 }, { "2", 1 } } };
	struct msg spec = { .headers = twice, .header_count = 2 };
	struct msg *m = msg_create(&spec);
	assert_slice(msg_header(m, SLICE("x")), "1");
	msg_unref(m);
}

TEST_THAT(a_size_beyond_the_address_space_is_no_message)
{
	struct msg spec = full_spec();
	spec.payload = NULL;
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 100 };
	for (size_t i = 0; i < COUNT(sizes); i++) {
		spec.payload_len = sizes[i];
		assert_null(msg_create(&spec));
	}
	spec.payload_len = 1;
	spec.exchange.len = SIZE_MAX / 2 + 1;
	spec.key.len = SIZE_MAX / 2 + 1;
	assert_null(msg_create(&spec));
}

TEST_THAT(the_text_of_a_nack_replaces_the_one_before_it)
{
	struct msg_header headers[MSG_HEADERS_ALL];
	struct msg m = full_spec();

	m.header_count = (uint8_t)msg_headers_with_reason(&m, SLICE("one"), headers);
	m.headers = headers;
	m.header_count = (uint8_t)msg_headers_with_reason(&m, SLICE("two"), headers);
	assert_int_equal(m.header_count, 3);
	assert_slice(msg_header(&m, SLICE("tier")), "gold");
	assert_slice(msg_header(&m, MSG_REASON_TEXT), "two");
}

TEST_THAT(without_room_there_is_no_text_of_a_nack)
{
	struct msg_header headers[MSG_HEADERS_ALL], out[MSG_HEADERS_ALL];
	struct msg m = { .headers = headers, .header_count = MSG_HEADERS_ALL };

	for (size_t i = 0; i < MSG_HEADERS_ALL; i++)
		headers[i] = two_headers[0];
	assert_int_equal(msg_headers_with_reason(&m, SLICE("one"), out), MSG_HEADERS_ALL);
	assert_slice(out[MSG_HEADERS_ALL - 1].name, "tier");
}

TEST_THAT(without_memory_there_is_no_message)
{
	struct msg spec = full_spec();
	mem_fail_at = 1;
	assert_null(msg_create(&spec));
	/* One allocation is all it takes: the second one is never asked for. */
	mem_fail_at = 2;
	struct msg *m = msg_create(&spec);
	check_full(m);
	mem_fail_at = 0;
	msg_unref(m);
}

RUN_TESTS()
