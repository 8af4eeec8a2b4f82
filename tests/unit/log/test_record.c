#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "failing_mem.h"
#include "log/record.h"
#include "record_seal.h"

static struct record_writer writer;
static struct record_reader reader;

static int teardown(void **state)
{
	record_writer_deinit(&writer);
	return 0;
}

static struct msg plain(uint64_t id, const char *key, const char *payload)
{
	return (struct msg){ .id = id,
			     .exchange = SLICE("orders"),
			     .key = slice_from(key),
			     .payload = payload,
			     .payload_len = strlen(payload) };
}

static void add(uint64_t offset, uint64_t id, const char *key, const char *payload,
		int64_t ms)
{
	struct msg m = plain(id, key, payload);

	record_add(&writer, offset, &m, ms);
}

static struct record_batch *reopen(struct record_batch *b)
{
	struct record_batch *again;
	struct error err = { 0 };

	if (record_open((struct slice){ b->bytes, b->len }, &again, &err) != TIDE_OK)
		fail_msg("%s", err.text);
	assert_int_equal(again->refs, 1);
	assert_int_equal(again->count, b->count);
	assert_int_equal(again->base, b->base);
	assert_int_equal(again->end, b->end);
	assert_int_equal(again->position, b->position);
	assert_int_equal(again->first_ms, b->first_ms);
	assert_int_equal(again->last_ms, b->last_ms);
	assert_int_equal(again->head_len, b->head_len);
	assert_int_equal(again->len, b->len);
	assert_memory_equal(again->bytes, b->bytes, b->len);
	record_batch_unref(b);
	return again;
}

static void assert_refused(struct slice bytes, const char *why)
{
	struct record_batch *b = NULL;
	struct error err = { 0 };

	assert_int_equal(record_open(bytes, &b, &err), TIDE_ESTORE);
	assert_null(b);
	if (!strstr(err.text, why))
		fail_msg("'%s', not '%s'", err.text, why);
}

/* ---- round trips --------------------------------------------------------------------
 */

TEST_THAT(a_message_comes_back_as_it_was)
{
	struct msg_header headers[] = { { SLICE("colour"), SLICE("red") },
					{ SLICE("empty"), SLICE("") } };
	struct msg m = plain(0x0123456789abcdef, "eu.paid", "hello");
	struct record_batch *b;
	struct record got;

	m.headers = headers;
	m.header_count = 2;
	m.priority = 7;
	record_begin(&writer, 41, 1000);
	record_add(&writer, 41, &m, 1790000000123);
	b = reopen(record_finish(&writer, 42));
	assert_int_equal(b->base, 41);
	assert_int_equal(b->end, 42);
	assert_int_equal(b->position, 1000);
	assert_int_equal(b->first_ms, 1790000000123);
	record_read(&reader, b);
	assert_true(record_next(&reader, &got));
	assert_int_equal(got.offset, 41);
	assert_int_equal(got.msg.refs, 0);
	assert_int_equal(got.msg.id, 0x0123456789abcdef);
	assert_int_equal(got.msg.ts_unix_ms, 1790000000123);
	assert_int_equal(got.msg.priority, 7);
	assert_slice(got.msg.exchange, "orders");
	assert_slice(got.msg.key, "eu.paid");
	assert_int_equal(got.msg.header_count, 2);
	assert_slice(got.msg.headers[0].name, "colour");
	assert_slice(got.msg.headers[0].value, "red");
	assert_slice(got.msg.headers[1].name, "empty");
	assert_slice(got.msg.headers[1].value, "");
	assert_slice(((struct slice){ got.msg.payload, got.msg.payload_len }), "hello");
	assert_slice(msg_user(&got.msg), "");
	assert_slice(msg_dedupe_id(&got.msg), "");
	assert_false(record_next(&reader, &got));
	assert_false(record_next(&reader, &got));
	record_batch_unref(b);
}

TEST_THAT(a_view_can_be_copied_and_outlives_its_batch)
{
	struct record_batch *b;
	struct record got;
	struct msg *copy;

	record_begin(&writer, 0, 0);
	add(0, 5, "k", "payload", 1);
	b = record_finish(&writer, 1);
	record_read(&reader, b);
	assert_true(record_next(&reader, &got));
	copy = msg_create(&got.msg);
	record_batch_unref(b);
	assert_int_equal(copy->refs, 1);
	assert_slice(copy->exchange, "orders");
	assert_slice(copy->key, "k");
	assert_memory_equal(copy->payload, "payload", 7);
	msg_unref(copy);
}

TEST_THAT(a_batch_lives_until_its_last_reference)
{
	struct record_batch *b;

	record_begin(&writer, 0, 0);
	add(0, 1, "k", "x", 1);
	b = record_batch_ref(record_finish(&writer, 1));
	record_batch_unref(b);
	assert_int_equal(b->refs, 1);
	record_batch_unref(b);
	record_batch_unref(NULL);
}

TEST_THAT(a_plain_message_costs_five_bytes_at_most)
{
	char payload[129] = { 0 };
	size_t before;

	memset(payload, 'x', 128);
	record_begin(&writer, 0, 0);
	add(0, 1000, "k", payload, 1790000000123);
	before = buf_len(&writer.bytes);
	add(1, 1001, "k", payload, 1790000000123);
	assert_int_equal(buf_len(&writer.bytes) - before, 128 + 3);
	before = buf_len(&writer.bytes);
	add(2, 1017, "k", payload, 1790000000123);
	assert_int_equal(buf_len(&writer.bytes) - before, 128 + 4);
	before = buf_len(&writer.bytes);
	payload[100] = '\0';
	add(3, 1018, "k", payload, 1790000000123);
	assert_int_equal(buf_len(&writer.bytes) - before, 100 + 2);
	record_batch_unref(record_finish(&writer, 4));
}

TEST_THAT(names_change_back_and_forth)
{
	const char *keys[] = { "a", "a", "", "b", "b", "ab", "", "" };
	struct record_batch *b;
	struct record got;

	record_begin(&writer, 0, 0);
	for (unsigned i = 0; i < COUNT(keys); i++) {
		struct msg m = plain(i, keys[i], "");

		m.exchange = i / 3 == 1 ? SLICE("other") : SLICE("");
		record_add(&writer, i, &m, i);
	}
	b = reopen(record_finish(&writer, COUNT(keys)));
	record_read(&reader, b);
	for (unsigned i = 0; i < COUNT(keys); i++) {
		assert_true(record_next(&reader, &got));
		assert_slice(got.msg.key, keys[i]);
		assert_slice(got.msg.exchange, i / 3 == 1 ? "other" : "");
		assert_int_equal(got.msg.id, i);
		assert_int_equal(got.msg.ts_unix_ms, i);
		assert_int_equal(got.msg.payload_len, 0);
	}
	assert_false(record_next(&reader, &got));
	record_batch_unref(b);
}

/* The length of the length is a guess that the names may spoil. */
TEST_THAT(names_stay_where_they_are_at_every_length)
{
	static char payload[17000], key[NAME_LEN_MAX + 1];
	struct record_batch *b;
	struct record got;

	memset(payload, 'p', sizeof(payload) - 1);
	memset(key, 'k', NAME_LEN_MAX);
	for (unsigned len = 0; len < 300; len++) {
		unsigned lens[] = { len, 16384 - 150 + len };

		for (unsigned i = 0; i < 2; i++) {
			struct msg m = plain(7, "", "");

			m.key = (struct slice){ key, len % NAME_LEN_MAX + 1 };
			m.payload = payload;
			m.payload_len = lens[i];
			record_begin(&writer, 0, 0);
			record_add(&writer, 0, &m, 1);
			record_add(&writer, 1, &m, 1);
			b = reopen(record_finish(&writer, 2));
			record_read(&reader, b);
			for (unsigned n = 0; n < 2; n++) {
				assert_true(record_next(&reader, &got));
				assert_true(slice_is_equal(got.msg.key, m.key));
				assert_slice(got.msg.exchange, "orders");
				assert_int_equal(got.msg.payload_len, lens[i]);
				assert_memory_equal(got.msg.payload, payload, lens[i]);
			}
			record_batch_unref(b);
		}
	}
}

TEST_THAT(all_headers_that_a_message_can_have_fit)
{
	struct msg_header headers[MSG_HEADERS_ALL];
	static char names[MSG_HEADERS_ALL][16], values[MSG_HEADERS_ALL][300];
	struct msg m = plain(1, "k", "payload");
	struct record_batch *b;
	struct record got;

	for (unsigned i = 0; i < MSG_HEADERS_ALL; i++) {
		snprintf(names[i], sizeof(names[i]), "name-%u", i);
		memset(values[i], (int)i, sizeof(values[i]));
		headers[i] =
			(struct msg_header){ slice_from(names[i]), { values[i], i * 3 } };
	}
	m.headers = headers;
	for (unsigned count = 0; count <= MSG_HEADERS_ALL; count += 27) {
		m.header_count = (uint8_t)count;
		record_begin(&writer, 0, 0);
		record_add(&writer, 0, &m, 1);
		add(1, 2, "k", "after", 1);
		b = reopen(record_finish(&writer, 2));
		record_read(&reader, b);
		assert_true(record_next(&reader, &got));
		assert_int_equal(got.msg.header_count, count);
		for (unsigned i = 0; i < count; i++) {
			assert_slice(got.msg.headers[i].name, names[i]);
			assert_true(slice_is_equal(got.msg.headers[i].value,
						   headers[i].value));
		}
		assert_memory_equal(got.msg.payload, "payload", 7);
		assert_true(record_next(&reader, &got));
		assert_int_equal(got.msg.header_count, 0);
		record_batch_unref(b);
	}
}

TEST_THAT(offsets_have_gaps)
{
	uint64_t offsets[] = { 12, 13, 15, 1000, 1001, 70000 };
	struct record_batch *b;
	struct record got;

	record_begin(&writer, 10, 0);
	for (unsigned i = 0; i < COUNT(offsets); i++)
		add(offsets[i], i + 1, "k", "x", 5);
	b = reopen(record_finish(&writer, 70010));
	assert_int_equal(b->base, 10);
	assert_int_equal(b->end, 70010);
	assert_int_equal(b->count, COUNT(offsets));
	record_read(&reader, b);
	for (unsigned i = 0; i < COUNT(offsets); i++) {
		assert_true(record_next(&reader, &got));
		assert_int_equal(got.offset, offsets[i]);
	}
	assert_false(record_next(&reader, &got));
	record_batch_unref(b);
}

TEST_THAT(a_huge_payload_is_a_batch_and_its_buffer_is_not_kept)
{
	size_t len = (size_t)5 << 20;
	char *payload = malloc(len);
	struct msg m = plain(1, "k", "");
	struct record_batch *b;
	struct record got;

	for (size_t i = 0; i < len; i++)
		payload[i] = (char)(i * 7 >> 3);
	m.payload = payload;
	m.payload_len = len;
	record_begin(&writer, 0, 0);
	assert_true(record_bytes_with(&writer, &m) > RECORD_BATCH_BYTES);
	record_add(&writer, 0, &m, 1);
	b = reopen(record_finish(&writer, 1));
	assert_null(writer.bytes.data);
	record_read(&reader, b);
	assert_true(record_next(&reader, &got));
	assert_int_equal(got.msg.payload_len, len);
	assert_memory_equal(got.msg.payload, payload, len);
	record_batch_unref(b);
	free(payload);
}

TEST_THAT(extremes_of_numbers_come_back)
{
	uint64_t ids[] = { UINT64_MAX, 0, 1, UINT64_MAX / 2, UINT64_MAX, 5, 4 };
	int64_t times[] = { 0, 0, 1, 1000, INT64_MAX - 1, INT64_MAX, INT64_MAX };
	struct record_batch *b;
	struct record got;

	record_begin(&writer, POSITION_OFFSET_MAX - 100, UINT64_MAX);
	for (unsigned i = 0; i < COUNT(ids); i++)
		add(POSITION_OFFSET_MAX - 50 + i, ids[i], "k", "x", times[i]);
	b = reopen(record_finish(&writer, POSITION_OFFSET_MAX));
	assert_true(b->position == UINT64_MAX);
	record_read(&reader, b);
	for (unsigned i = 0; i < COUNT(ids); i++) {
		assert_true(record_next(&reader, &got));
		assert_true(got.msg.id == ids[i]);
		assert_true(got.msg.ts_unix_ms == times[i]);
		assert_true(got.offset == POSITION_OFFSET_MAX - 50 + i);
	}
	record_batch_unref(b);
}

/* docs/redis.md has it. */
TEST_THAT(the_bytes_are_those_of_the_documents)
{
	static const char expected[] =
		"\x01\xe6\x7a\x22\x91\x4d\xd6\xcb\x07\x29\x02\x02\x80\x28"
		"\x80\xd8\xc1\xa2\x8c\x34"
		"\x1f\x1a\x86\x80\x80\x8c\xcf\xf6\xb2\xff\xd0\x01"
		"\x06orders\x07"
		"eu.paidhello"
		"\x10\x44\x05\x01\x04tier\x04goldbye";
	struct msg_header header = { SLICE("tier"), SLICE("gold") };
	struct msg m = plain(0x687f65da78c00003, "eu.paid", "hello");
	struct record_batch *b;

	record_begin(&writer, 41, 5120);
	record_add(&writer, 41, &m, 1790000000000);
	m = plain(0x687f65da78c00004, "eu.paid", "bye");
	m.headers = &header;
	m.header_count = 1;
	record_add(&writer, 42, &m, 1790000000005);
	b = record_finish(&writer, 43);
	assert_int_equal(b->len, sizeof(expected) - 1);
	assert_memory_equal(b->bytes, expected, b->len);
	record_batch_unref(b);
}

/* ---- skipping ------------------------------------------------------------------------
 */

TEST_THAT(skipping_gives_what_reading_on_gives)
{
	static struct record_reader skipped;
	struct record a, b;
	struct record_batch *batch;
	char key[16];

	srand(1);
	record_begin(&writer, 100, 0);
	for (unsigned i = 0; i < 200; i++) {
		uint64_t offset = writer.next + (rand() % 4 ? 0 : (uint64_t)rand() % 5);

		snprintf(key, sizeof(key), "key-%d", rand() % 2);
		add(offset, (uint64_t)rand(), key, "payload", i / 3);
	}
	batch = record_finish(&writer, writer.next + 3);
	for (uint64_t from = 0; from < batch->end + 2; from++) {
		bool has_a, has_b;

		record_read(&reader, batch);
		while ((has_a = record_next(&reader, &a)) && a.offset < from)
			;
		record_read(&skipped, batch);
		record_skip(&skipped, from);
		has_b = record_next(&skipped, &b);
		assert_int_equal(has_a, has_b);
		if (!has_a)
			continue;
		assert_int_equal(a.offset, b.offset);
		assert_int_equal(a.msg.id, b.msg.id);
		assert_int_equal(a.msg.ts_unix_ms, b.msg.ts_unix_ms);
		assert_true(slice_is_equal(a.msg.key, b.msg.key));
		assert_ptr_equal(a.msg.payload, b.msg.payload);
	}
	record_batch_unref(batch);
}

/* ---- the bound -----------------------------------------------------------------------
 */

TEST_THAT(a_batch_is_never_longer_than_it_was_said_to_become)
{
	static char payload[2000];
	struct msg_header headers[3] = { { SLICE("a"), SLICE("1") },
					 { SLICE("b"), SLICE("") },
					 { SLICE("c"), { payload, 200 } } };

	srand(2);
	for (unsigned round = 0; round < 200; round++) {
		size_t bound = 0;
		struct record_batch *b;

		record_begin(&writer, (uint64_t)rand() << 20, UINT64_MAX);
		for (int i = rand() % 20; i >= 0; i--) {
			struct msg m =
				plain((uint64_t)rand() * (uint64_t)rand(), "k", "");

			m.payload = payload;
			m.payload_len = (size_t)rand() % sizeof(payload);
			m.headers = headers;
			m.header_count = (uint8_t)(rand() % 4);
			m.priority = (uint8_t)rand();
			bound = record_bytes_with(&writer, &m);
			record_add(&writer, writer.next + (uint64_t)(rand() % 3), &m,
				   writer.last_ms + rand());
		}
		b = reopen(record_finish(&writer, writer.next));
		assert_true(b->len <= bound);
		record_batch_unref(b);
	}
}

/* ---- what is refused ------------------------------------------------------------------
 */

/* A small batch with every field. */
static struct record_batch *small(void)
{
	struct msg_header header = { SLICE("h"), SLICE("v") };
	struct msg m = plain(77, "key", "one");

	m.headers = &header;
	m.header_count = 1;
	m.priority = 3;
	record_begin(&writer, 200, 300);
	record_add(&writer, 202, &m, 1000);
	add(203, 78, "key", "two", 1000);
	add(300, 99, "other", "three", 5000);
	return record_finish(&writer, 310);
}

TEST_THAT(every_truncation_is_refused)
{
	struct record_batch *b = small();

	for (size_t len = 0; len < b->len; len++) {
		char *cut = malloc(len + 1);

		memcpy(cut, b->bytes, len);
		assert_refused((struct slice){ cut, len },
			       len < 9 ? "the head is not whole"
				       : "the checksum is wrong");
		free(cut);
	}
	assert_refused((struct slice){ NULL, 0 }, "the head is not whole");
	record_batch_unref(b);
}

TEST_THAT(every_bit_that_flips_is_seen)
{
	struct record_batch *b = small();

	for (size_t i = 0; i < b->len * 8; i++) {
		b->bytes[i / 8] ^= (char)(1 << i % 8);
		assert_refused((struct slice){ b->bytes, b->len },
			       i < 8 ? "not of version 1" : "the checksum is wrong");
		b->bytes[i / 8] ^= (char)(1 << i % 8);
	}
	record_batch_unref(b);
}

/* Read all that was accepted: under ASan, it must lie in the batch. */
static void read_all(const struct record_batch *b)
{
	uint64_t next = b->base, count = 0, sum = 0;
	struct record got;
	int64_t ms = b->first_ms;

	record_read(&reader, b);
	while (record_next(&reader, &got)) {
		assert_true(got.offset >= next && got.offset < b->end);
		assert_true(got.msg.ts_unix_ms >= ms);
		next = got.offset + 1;
		ms = got.msg.ts_unix_ms;
		count++;
		for (size_t i = 0; i < got.msg.payload_len; i++)
			sum += (uint8_t)got.msg.payload[i];
		for (unsigned i = 0; i < got.msg.header_count; i++)
			sum += got.msg.headers[i].name.len;
	}
	assert_true(sum < UINT64_MAX);
	assert_int_equal(count, b->count);
	assert_int_equal(ms, b->last_ms);
}

/* With a right checksum: each byte of it set to each value, and each truncation. */
TEST_THAT(sealed_lies_are_refused_or_harmless)
{
	struct record_batch *b = small(), *opened;
	unsigned refused = 0, accepted = 0;
	struct error err;

	for (size_t at = 9; at < b->len; at++)
		for (unsigned value = 0; value < 256; value++) {
			char *bytes = malloc(b->len);

			memcpy(bytes, b->bytes, b->len);
			bytes[at] = (char)value;
			record_seal(bytes, b->len);
			err.text[0] = '\0';
			if (record_open((struct slice){ bytes, b->len }, &opened, &err) ==
			    TIDE_OK) {
				read_all(opened);
				record_batch_unref(opened);
				accepted++;
			} else {
				assert_true(err.text[0] != '\0');
				refused++;
			}
			free(bytes);
		}
	assert_true(refused > 1000 && accepted > 1000);
	for (size_t len = 9; len < b->len; len++) {
		char *bytes = malloc(len);

		memcpy(bytes, b->bytes, len);
		record_seal(bytes, len);
		assert_refused((struct slice){ bytes, len }, "corrupt at byte ");
		free(bytes);
	}
	record_batch_unref(b);
}

/* A batch whose bytes behind the checksum are these. */
static void assert_sealed_refused(const char *rest, size_t len, const char *why)
{
	char *bytes = calloc(1, 9 + len);

	bytes[0] = RECORD_VERSION;
	memcpy(bytes + 9, rest, len);
	record_seal(bytes, 9 + len);
	assert_refused((struct slice){ bytes, 9 + len }, why);
	free(bytes);
}

#define LIE(rest, why) assert_sealed_refused(rest, sizeof(rest) - 1, why)
#define FULL "\xff\xff\xff\xff\xff\xff\xff\xff\xff"

TEST_THAT(each_lie_has_its_sentence)
{
	/* base, span, count, position, time */
	LIE("\0\1\1\0", "the head is not five numbers");
	LIE(FULL "\2\1\1\0\0\1\0", "the head is not five numbers");
	LIE(FULL "\x81\0\1\1\0\0\1\0", "the head is not five numbers");
	LIE(FULL "\1\1\1\0\0\1\0", "the offsets are out of range");
	LIE("\1" FULL "\1\1\0\0\1\0", "the offsets are out of range");
	LIE("\0\1\0\0\0", "the count is out of range");
	LIE("\0\1\2\0\0\1\0\1\0", "the count is out of range");
	LIE("\0\xff\xff\xff\xff\x7f\xff\xff\xff\xff\x1f\0\0\1\0",
	    "the count is out of range");
	LIE("\0\1\1\0" FULL "\1\1\0", "the time is out of range");
	LIE("\0\1\1\0\0", "the record is not whole");
	LIE("\0\1\1\0\0\0", "the record is not whole");
	LIE("\0\1\1\0\0\2\0", "the record is not whole");
	LIE("\0\1\1\0\0" FULL "\1\0", "the record is not whole");
	LIE("\0\2\2\0\0\1\0", "at byte 16 of 16: the record is not whole");
	LIE("\0\1\1\0\0\1\0\0", "at byte 16 of 17: bytes follow the last record");
	LIE("\0\1\1\0\0\1\x80", "a flag that is not known");
	LIE("\0\1\1\0\0\1\1", "the gap is not a number");
	LIE("\0\2\1\0\0\2\1\3", "the gap is longer than the span");
	LIE("\0\2\1\0\0\2\1\2", "the span ends before the records");
	LIE("\0\2\2\0\0\2\1\1\1\0", "the span ends before the records");
	LIE("\0\1\1\0\0\2\2\x80", "the id is not a number");
	LIE("\0\1\1\0\0\2\4\x80", "the time is out of range");
	LIE("\0\1\1\0\1\x0b\4\xff\xff\xff\xff\xff\xff\xff\xff\x7f\0",
	    "the time is out of range");
	LIE("\0\1\1\0\0\3\x08\2e", "the exchange is not whole");
	LIE("\0\1\1\0\0\3\x08\1 ", "the exchange is not a name");
	LIE("\0\1\1\0\0\3\x10\2k", "the key is not whole");
	LIE("\0\1\1\0\0\3\x10\1\n", "the key is not a name");
	LIE("\0\1\1\0\0\1\x20", "the priority is not whole");
	LIE("\0\1\1\0\0\1\x40", "the number of headers is out of range");
	LIE("\0\1\1\0\0\2\x40\x52", "the number of headers is out of range");
	LIE("\0\1\1\0\0\4\x40\1\1h", "a header is not whole");
	LIE("\0\1\1\0\0\5\x40\1\1=\0", "the name of a header is not a name");
	LIE("\0\1\1\0\0\4\x40\1\0\0", "the name of a header is not a name");
}

TEST_THAT(without_memory_a_batch_is_not_opened)
{
	struct record_batch *b = small(), *opened = NULL;
	struct error err = { 0 };

	mem_fail_at = 1;
	assert_int_equal(record_open((struct slice){ b->bytes, b->len }, &opened, &err),
			 TIDE_ELIMIT);
	assert_null(opened);
	assert_non_null(strstr(err.text, "out of memory for a batch of"));
	record_batch_unref(b);
}

RUN_TESTS(.teardown = teardown)
