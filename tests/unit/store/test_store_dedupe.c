#include "harness.h"

#include "store/store.h"

/* ---- members ---------------------------------------------------------------------- */

static void check_parse(struct slice member, uint64_t msg_id, unsigned copy,
			const char *publish_id)
{
	struct store_seen seen;
	assert_int_equal(store_dedupe_parse_member(member, &seen), TIDE_OK);
	assert_int_equal(seen.msg_id, msg_id);
	assert_int_equal(seen.copy, copy);
	assert_int_equal(seen.publish_id.len, strlen(publish_id));
	assert_memory_equal(seen.publish_id.data, publish_id, seen.publish_id.len);
}

TEST_THAT(a_member_is_what_the_manual_says)
{
	check_parse(SLICE("687f6b32f9000000 order 42"), UINT64_C(0x687f6b32f9000000), 0,
		    "order 42");
	check_parse(SLICE("687f6b32f9000000+3 a"), UINT64_C(0x687f6b32f9000000), 3, "a");
	check_parse(SLICE("687f6b32f9000000  "), UINT64_C(0x687f6b32f9000000), 0, " ");
	check_parse(SLICE("687f6b32f9000000@17 @1 b"), UINT64_C(0x687f6b32f9000000), 0,
		    "@1 b");
	check_parse(SLICE("687f6b32f9000000+2@0 b"), UINT64_C(0x687f6b32f9000000), 2,
		    "b");
	check_parse(SLICE("687f6b32f9000000 +1 b"), UINT64_C(0x687f6b32f9000000), 0,
		    "+1 b");
}

TEST_THAT(other_members_are_refused)
{
	static const char *const bad[] = {
		"",
		" ",
		"a",
		"687f6b32f9000000",
		"687f6b32f9000000 ",
		"687f6b32f900000 a",
		"687f6b32f90000000 a",
		"687f6b32f900000g a",
		"687f6b32f9000000+ a",
		"687f6b32f9000000+65536 a",
		"687f6b32f9000000-1 a",
		"687f6b32f9000000+1a b",
		"687f6b32f9000000@ b",
		"687f6b32f9000000@-1 b",
		"687f6b32f9000000@1+2 b",
		"687f6b32f9000000+@2 b",
		"687f6b32f9000000x@2 b",
		"687f6b32f9000000@9007199254740993 b",
	};
	char long_one[ID_HEX_LEN + 1 + MSG_DEDUPE_ID_MAX + 2];
	struct store_seen seen;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(store_dedupe_parse_member(slice_from(bad[i]), &seen),
				 TIDE_ESYNTAX);
	memset(long_one, 'x', sizeof(long_one));
	memcpy(long_one, "687f6b32f9000000 ", ID_HEX_LEN + 1);
	struct slice s = { long_one, ID_HEX_LEN + 1 + MSG_DEDUPE_ID_MAX };
	assert_int_equal(store_dedupe_parse_member(s, &seen), TIDE_OK);
	s.len++;
	assert_int_equal(store_dedupe_parse_member(s, &seen), TIDE_ESYNTAX);
}

TEST_THAT(what_is_written_is_read_again)
{
	static const unsigned copies[] = { 0, 1, 64, 65535 };
	char text[STORE_DEDUPE_HEAD_MAX + 1];
	for (size_t i = 0; i < 2 * sizeof(copies) / sizeof(copies[0]); i++) {
		struct store_seen seen = { .msg_id = 7, .copy = copies[i / 2] }, read;
		seen.has_offset = i % 2;
		seen.offset = i % 2 ? UINT64_C(1) << 53 : 0;
		size_t len = store_dedupe_format_head(&seen, text);
		text[len] = 'a';
		check_parse((struct slice){ text, len + 1 }, 7, copies[i / 2], "a");
		assert_int_equal(
			store_dedupe_parse_member((struct slice){ text, len + 1 }, &read),
			TIDE_OK);
		assert_int_equal(read.has_offset, seen.has_offset);
		assert_int_equal(read.offset, seen.offset);
	}
}

/* ---- Redis --------------------------------------------------------------------------
 */

struct outcome {
	unsigned calls;
	int status;
	uint64_t removed;
};

static void on_batch(void *ctx, const struct batch_result *result)
{
	struct outcome *o = ctx;
	o->calls++;
	o->status = result->written;
}

static void on_trimmed(void *ctx, int status, const char *text, uint64_t removed)
{
	struct outcome *o = ctx;
	o->calls++;
	o->status = status;
	o->removed = removed;
}

struct rows {
	unsigned calls;
	int status;
	size_t count, total;
	uint64_t first, last;
};

static void on_rows(void *ctx, int status, const char *text,
		    const struct store_seen *rows, size_t count, size_t total)
{
	struct rows *r = ctx;
	r->calls++;
	r->status = status;
	r->count = count;
	r->total = total;
	for (size_t i = 0; i < count; i++) {
		char id[32];
		snprintf(id, sizeof(id), "id %llu", (unsigned long long)rows[i].msg_id);
		assert_int_equal(rows[i].publish_id.len, strlen(id));
		assert_memory_equal(rows[i].publish_id.data, id, strlen(id));
		assert_int_equal(rows[i].until_unix_ms,
				 1790000000000 + (int64_t)rows[i].msg_id);
		assert_int_equal(rows[i].copy, rows[i].msg_id % 3);
	}
	r->first = count ? rows[0].msg_id : 0;
	r->last = count ? rows[count - 1].msg_id : 0;
}

static void write_ids(struct harness *h, uint64_t from, uint64_t to)
{
	struct outcome o = { 0 };
	struct batch *b = store_batch_begin(h->store, h->shard);
	for (uint64_t i = from; i <= to; i++) {
		char id[32];
		snprintf(id, sizeof(id), "id %llu", (unsigned long long)i);
		struct store_seen seen = { .publish_id = slice_from(id),
					   .msg_id = i,
					   .copy = (unsigned)(i % 3),
					   .until_unix_ms = 1790000000000 + (int64_t)i };
		batch_dedupe(b, &seen);
	}
	store_batch_commit_take(b, on_batch, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
}

static struct rows read_ids(struct harness *h, int64_t start, unsigned count)
{
	struct rows r = { 0 };
	store_dedupe_read(h->store, h->shard, start, count, on_rows, &r);
	assert_int_equal(r.calls, 0);
	WAIT(h, r.calls == 1);
	assert_int_equal(r.status, TIDE_OK);
	return r;
}

static uint64_t trim(struct harness *h, int64_t until_ms, unsigned count)
{
	struct outcome o = { 0 };
	store_dedupe_trim(h->store, h->shard, until_ms, count, on_trimmed, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	return o.removed;
}

STORE_TEST(ids_are_read_by_their_time)
{
	assert_int_equal(read_ids(h, 0, 10).total, 0);
	write_ids(h, 1, 3000);
	write_ids(h, 1, 3000); /* as after a reconnect */
	struct rows r = read_ids(h, 0, 2000);
	assert_int_equal(r.count, 2000);
	assert_int_equal(r.first, 1);
	assert_int_equal(r.last, 2000);
	r = read_ids(h, 2000, 2000);
	assert_int_equal(r.total, 1000);
	assert_int_equal(r.last, 3000);
}

STORE_TEST(those_that_are_over_are_trimmed_in_pieces)
{
	write_ids(h, 1, 3000);
	assert_int_equal(trim(h, 1790000000000, 100), 0);
	assert_int_equal(trim(h, 1790000002500, 100), 100);
	assert_int_equal(read_ids(h, 0, 1).first, 101);
	assert_int_equal(trim(h, 1790000002500, 4096), 2400);
	assert_int_equal(read_ids(h, 0, 1).first, 2501);
	assert_int_equal(trim(h, 1790000002500, 4096), 0);
}

STORE_TEST(they_are_trimmed_while_memory_is_out)
{
	write_ids(h, 1, 10);
	tell(h, "CONFIG SET maxmemory 1");
	assert_int_equal(trim(h, 1790000000005, 100), 5);
	tell(h, "CONFIG SET maxmemory 0");
}

STORE_TEST(what_is_no_member_of_ours_is_counted_and_left_out)
{
	write_ids(h, 1, 2);
	assert_int_equal(ask_int(h, "ZADD tide:{//jobs#0}:dedupe 5 nonsense"), 1);
	struct rows r = read_ids(h, 0, 10);
	assert_int_equal(r.total, 3);
	assert_int_equal(r.count, 2);
}

STORE_TEST(an_id_goes_with_its_message)
{
	struct outcome o = { 0 };
	struct msg *m = make_msg(7, "k", "x", 1);
	struct batch *b = store_batch_begin(h->store, h->shard);
	batch_insert(b,
		     &(struct store_insert){ m, 0, m->expires_unix_ms, STORE_READY, 0 });
	batch_dedupe(b, &(struct store_seen){ .publish_id = SLICE("id 7"),
					      .msg_id = 7,
					      .copy = 1,
					      .until_unix_ms = 1790000000007 });
	msg_unref(m);
	/* Of one transaction, nothing or all is done. */
	tell(h, "CONFIG SET maxmemory 1");
	store_batch_commit_take(b, on_batch, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_int_equal(ask_int(h, "DBSIZE"), 0);
	tell(h, "CONFIG SET maxmemory 0");
}

RUN_TESTS(.setup = harness_setup, .teardown = harness_teardown)
