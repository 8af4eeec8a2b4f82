#include "check.h"
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "codec_encode.h"

static struct msg_header headers[] = {
	{ { "tier", 4 }, { "gold", 4 } },
	{ { "empty", 5 }, { "", 0 } },
	{ { "binary", 6 }, { "\xff\x00\xfe", 3 } },
	{ { "tier", 4 }, { "twice", 5 } },
};

static struct msg *make(size_t payload_len, unsigned header_count)
{
	struct msg spec = {
		.id = 42,
		.ts_unix_ms = 1790000000000,
		.due_unix_ms = 1790000001000,
		.expires_unix_ms = 0,
		.priority = 200,
		.header_count = (uint8_t)header_count,
		.headers = headers,
		.exchange = SLICE("orders"),
		.key = SLICE("eu.new"),
		.payload_len = payload_len,
	};
	struct msg *m = msg_create(&spec);
	assert_non_null(m);
	memset(msg_payload_room(m), 0xc1, payload_len);
	return m;
}

static void assert_same(const struct msg *a, const struct msg *b)
{
	assert_int_equal(a->id, b->id);
	assert_int_equal(a->ts_unix_ms, b->ts_unix_ms);
	assert_int_equal(a->due_unix_ms, b->due_unix_ms);
	assert_int_equal(a->expires_unix_ms, b->expires_unix_ms);
	assert_int_equal(a->priority, b->priority);
	assert_int_equal(a->ack_timeout_ms, b->ack_timeout_ms);
	assert_true(slice_is_equal(a->exchange, b->exchange));
	assert_true(slice_is_equal(a->key, b->key));
	assert_int_equal(a->header_count, b->header_count);
	for (unsigned i = 0; i < a->header_count; i++) {
		assert_true(slice_is_equal(a->headers[i].name, b->headers[i].name));
		assert_true(slice_is_equal(a->headers[i].value, b->headers[i].value));
	}
	assert_int_equal(a->payload_len, b->payload_len);
	assert_memory_equal(a->payload, b->payload, a->payload_len);
}

static const struct msg known = { .id = 42 };

static void round_trip(struct msg *m, double rank)
{
	struct buf out = { 0 };
	struct msg *back;
	struct error err;
	double rank_back;
	codec_encode(&out, m, rank);
	assert_int_equal(codec_decode(buf_slice(&out), &known, &back, &rank_back, &err),
			 TIDE_OK);
	assert_same(m, back);
	assert_true(rank == rank_back);
	msg_unref(back);
	buf_deinit(&out);
}

TEST_THAT(messages_of_all_sizes_come_back_the_same)
{
	static const size_t sizes[] = { 0, 1, 31, 32, 255, 256, 65535, 65536, 1 << 20 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (unsigned count = 0; count <= 4; count++) {
			struct msg *m = make(sizes[i], count);
			round_trip(m, 0);
			msg_unref(m);
		}
	}
}

TEST_THAT(text_is_a_str_and_all_else_a_bin)
{
	struct msg *m = make(5, 0);
	struct buf out = { 0 };
	codec_encode(&out, m, 0);
	assert_memory_equal(out.data + out.end - 7, "\xc4\x05\xc1\xc1\xc1\xc1\xc1", 7);
	memcpy(msg_payload_room(m), "h\xc3\xa9ll", 5);
	buf_clear(&out);
	codec_encode(&out, m, 0);
	assert_memory_equal(out.data + out.end - 6, "\xa5h\xc3\xa9ll", 6);
	round_trip(m, 0);
	msg_unref(m);
	for (size_t len = CODEC_TEXT_MAX; len <= CODEC_TEXT_MAX + 1; len++) {
		m = make(len, 0);
		memset(msg_payload_room(m), 'x', len);
		buf_clear(&out);
		codec_encode(&out, m, 0);
		char tag = out.data[out.end - len - 5];
		assert_int_equal((unsigned char)tag, len > CODEC_TEXT_MAX ? 0xc6 : 0xdb);
		round_trip(m, 0);
		msg_unref(m);
	}
	buf_deinit(&out);
}

TEST_THAT(ranks_of_all_kinds_come_back_the_same)
{
	static const double ranks[] = {
		0,
		-1,
		-32,
		-33,
		-128,
		-129,
		-32768,
		-32769,
		127,
		128,
		255,
		256,
		65535,
		65536,
		4294967295.0,
		4294967296.0,
		-2147483648.0,
		-2147483649.0,
		0.1,
		-0.1,
		1e300,
		-1e300,
		9007199254740992.0,
		9007199254740994.0,
		INFINITY,
	};
	struct msg *m = make(10, 1);
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
		round_trip(m, ranks[i]);
	msg_unref(m);
}

TEST_THAT(many_headers_come_back_the_same)
{
	struct msg_header many[MSG_HEADERS_MAX];
	char value[40000];
	memset(value, 'v', sizeof(value));
	for (unsigned i = 0; i < MSG_HEADERS_MAX; i++)
		many[i] = (struct msg_header){ SLICE("name"), { value, i * 600 } };
	for (unsigned count = 14; count <= MSG_HEADERS_MAX; count++) {
		struct msg spec = { .id = 42,
				    .headers = many,
				    .header_count = (uint8_t)count,
				    .payload = "" };
		struct msg *m = msg_create(&spec);
		round_trip(m, 0);
		msg_unref(m);
	}
}

TEST_THAT(a_message_with_facts_is_of_version_2)
{
	struct msg *m = make(3, 2);
	struct buf out = { 0 };

	codec_encode(&out, m, 1);
	assert_memory_equal(out.data + out.start, "\x9a\x01", 2);
	m->ack_timeout_ms = MSG_ACK_TIMEOUT_MAX_MS;
	round_trip(m, 1);
	m->ack_timeout_ms = MSG_ACK_TIMEOUT_MIN_MS;
	round_trip(m, 1);
	buf_clear(&out);
	codec_encode(&out, m, 1);
	assert_memory_equal(out.data + out.start, "\x9b\x02", 2);
	msg_unref(m);
	buf_deinit(&out);
}

static int decode_copy(const char *bytes, size_t len)
{
	/* On the heap and exactly that long, so that ASan sees a step beyond. */
	char *copy = mem_alloc(len ? len : 1);
	struct msg *m = NULL;
	struct error err;
	double rank;
	memcpy(copy, bytes, len);
	int status = codec_decode((struct slice){ copy, len }, &known, &m, &rank, &err);
	if (status == TIDE_OK)
		msg_unref(m);
	else
		assert_non_null(strstr(err.text, "corrupt at byte"));
	mem_free(copy);
	return status;
}

#define HEAD "\xa0\xa1k\x01\x00\x00\x00\x00\x80" /* exchange to headers */

TEST_THAT(facts_are_integers_by_name)
{
	static const struct {
		const char *bytes;
		size_t len;
		int status;
	} cases[] = {
#define CASE(text, status) { text, sizeof(text) - 1, status }
		CASE("\x9b\x02" HEAD "\x81\xab"
		     "ack-timeout\x0a\xa0",
		     TIDE_OK),
		CASE("\x9b\x02" HEAD "\x80\xa0", TIDE_OK),
		/* One that a later version may know. */
		CASE("\x9b\x02" HEAD "\x82\xa5later\xff\xab"
		     "ack-timeout\x0a\xa0",
		     TIDE_OK),
		CASE("\x9b\x02" HEAD "\x81\xab"
		     "ack-timeout\x09\xa0",
		     TIDE_ESTORE),
		CASE("\x9b\x02" HEAD "\x81\xab"
		     "ack-timeout\xa1x\xa0",
		     TIDE_ESTORE),
		CASE("\x9b\x02" HEAD "\x81\x01\x01\xa0", TIDE_ESTORE),
		CASE("\x9b\x02" HEAD "\xa0\xa0", TIDE_ESTORE),
		CASE("\x9b\x01" HEAD "\x80\xa0", TIDE_ESTORE),
		CASE("\x9a\x02" HEAD "\xa0", TIDE_ESTORE),
		CASE("\x9c\x02" HEAD "\x80\xa0\xa0", TIDE_ESTORE),
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(decode_copy(cases[i].bytes, cases[i].len),
				 cases[i].status);
}

TEST_THAT(truncation_at_each_byte_is_corrupt)
{
	struct msg *m = make(300, 4);
	struct buf out = { 0 };
	m->ack_timeout_ms = 30000;
	codec_encode(&out, m, 0.5);
	struct slice bytes = buf_slice(&out);
	for (size_t len = 0; len < bytes.len; len++)
		assert_int_equal(decode_copy(bytes.data, len), TIDE_ESTORE);
	assert_int_equal(decode_copy(bytes.data, bytes.len), TIDE_OK);
	buf_append_char(&out, '\0');
	bytes = buf_slice(&out);
	assert_int_equal(decode_copy(bytes.data, bytes.len), TIDE_ESTORE);
	buf_deinit(&out);
	msg_unref(m);
}

TEST_THAT(any_changed_byte_is_survived)
{
	struct msg *m = make(40, 4);
	struct buf out = { 0 };
	m->ack_timeout_ms = 30000;
	codec_encode(&out, m, 0.5);
	for (size_t i = 0; i < buf_len(&out); i++) {
		char *at = out.data + out.start + i;
		char old = *at;
		for (int value = 0; value < 256; value++) {
			*at = (char)value;
			decode_copy(buf_slice(&out).data, buf_len(&out));
		}
		*at = old;
	}
	buf_deinit(&out);
	msg_unref(m);
}

TEST_THAT(random_bytes_are_survived)
{
	char bytes[64];
	srand(7);
	for (int i = 0; i < 200000; i++) {
		size_t len = (size_t)rand() % sizeof(bytes);
		for (size_t j = 0; j < len; j++)
			bytes[j] = (char)rand();
		if (len > 2) {
			bytes[0] = (char)0x9a;
			bytes[1] = 1;
		}
		decode_copy(bytes, len);
	}
}

static int decode_spec(const struct msg *spec)
{
	struct msg *m = msg_create(spec);
	struct buf out = { 0 };
	int status;

	codec_encode(&out, m, 0);
	status = decode_copy(out.data + out.start, buf_len(&out));
	buf_deinit(&out);
	msg_unref(m);
	return status;
}

TEST_THAT(a_name_in_a_body_is_one_that_pub_takes)
{
	char most[NAME_LEN_MAX + 1];
	const struct {
		struct slice name;
		int as_word, as_header;
	} cases[] = {
		{ { most, NAME_LEN_MAX }, TIDE_OK, TIDE_OK },
		{ { most, NAME_LEN_MAX + 1 }, TIDE_ESTORE, TIDE_ESTORE },
		{ SLICE(""), TIDE_OK, TIDE_ESTORE },
		{ SLICE("a=b"), TIDE_OK, TIDE_ESTORE },
		{ SLICE("eu.\xc3\xa9"), TIDE_OK, TIDE_OK },
		{ SLICE("a b"), TIDE_ESTORE, TIDE_ESTORE },
		{ SLICE("a\r\nOK"), TIDE_ESTORE, TIDE_ESTORE },
		{ SLICE("\0"), TIDE_ESTORE, TIDE_ESTORE },
		{ SLICE("\xff"), TIDE_ESTORE, TIDE_ESTORE },
	};

	memset(most, 'k', sizeof(most));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct msg_header header = { cases[i].name, SLICE("v") };
		struct msg key = { .key = cases[i].name };
		struct msg exchange = { .exchange = cases[i].name };
		struct msg named = { .headers = &header, .header_count = 1 };

		assert_int_equal(decode_spec(&key), cases[i].as_word);
		assert_int_equal(decode_spec(&exchange), cases[i].as_word);
		assert_int_equal(decode_spec(&named), cases[i].as_header);
	}
}

#define HOSTILE(text) assert_int_equal(decode_copy(text, sizeof(text) - 1), TIDE_ESTORE)

TEST_THAT(hostile_bodies_are_corrupt)
{
	/* Counts and lengths far beyond the bytes. */
	HOSTILE("\xdd\xff\xff\xff\xff");
	HOSTILE("\x9a\x01\xdb\xff\xff\xff\xff");
	HOSTILE("\x9a\x01\xc6\xff\xff\xff\xff");
	HOSTILE("\x9a\x01\xa0\xa0\x00\x00\x00\x00\x00\xdf\xff\xff\xff\xff");
	HOSTILE("\x9a\x01\xa0\xa0\x00\x00\x00\x00\x00\xde\x00\x41");
	/* Another version, too few, too many, an other type. */
	HOSTILE("\x9a\x02\xa0\xa0\x00\x00\x00\x00\x00\x80\xc4\x00");
	HOSTILE("\x99\x01\xa0\xa0\x00\x00\x00\x00\x00\x80");
	HOSTILE("\x9b\x01\xa0\xa0\x00\x00\x00\x00\x00\x80\xc4\x00\x00");
	HOSTILE("\x8a\x01\xa0\xa0\x00\x00\x00\x00\x00\x80\xc4\x00");
	HOSTILE("\x9a\x01\xc0\xa0\x00\x00\x00\x00\x00\x80\xc4\x00");
	/* A priority of 256 and of -1; a time above INT64_MAX; a rank of NaN. */
	HOSTILE("\x9a\x01\xa0\xa0\x00\x00\x00\xcd\x01\x00\x00\x80\xc4\x00");
	HOSTILE("\x9a\x01\xa0\xa0\x00\x00\x00\xff\x00\x80\xc4\x00");
	HOSTILE("\x9a\x01\xa0\xa0\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x80"
		"\xc4\x00");
	HOSTILE("\x9a\x01\xa0\xa0\x00\x00\x00\x00\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x80"
		"\xc4\x00");
	HOSTILE("nonsense");
	HOSTILE("");
	static const char good[] = "\x9a\x01\xa0\xa0\x00\x00\x00\x00\x00\x80\xc4\x00";
	assert_int_equal(decode_copy(good, sizeof(good) - 1), TIDE_OK);
}

RUN_TESTS()
