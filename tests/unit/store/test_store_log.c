#include "store/store_log.h"

#include "fake_redis.h"
#include "store/store.h"

#define KEY(suffix) "tide:{//events#3}:" suffix
#define DAY KEY("log:20261123")
#define NEXT_DAY KEY("log:20261124")
#define HELLO "+OK\r\n*0\r\n*0\r\n*0\r\n$19\r\nredis_version:7.0.1\r\n"

struct outcome {
	unsigned calls;
	int status;
	bool is_unsure;
	char text[256];
};

static void on_done(void *ctx, int status, const char *text)
{
	struct outcome *o = ctx;
	o->calls++;
	o->status = status;
	snprintf(o->text, sizeof(o->text), "%s", text ? text : "");
}

static void on_appended(void *ctx, int status, const char *text, bool is_unsure)
{
	on_done(ctx, status, text);
	((struct outcome *)ctx)->is_unsure = is_unsure;
}

/* Rows as "<base>:<bytes> ...". */
struct reading {
	unsigned calls;
	int status;
	size_t count, bytes;
	char text[1024];
};

static void on_rows(void *ctx, int status, const char *text,
		    const struct store_log_batch *rows, size_t count)
{
	struct reading *r = ctx;
	r->calls++;
	r->status = status;
	r->count = count;
	for (size_t i = 0; i < count; i++) {
		size_t len = strlen(r->text);
		snprintf(r->text + len, sizeof(r->text) - len, "%s%llu:%.*s",
			 i ? " " : "", (unsigned long long)rows[i].base,
			 SLICE_HEAD(rows[i].bytes, 40));
		r->bytes += rows[i].bytes.len;
	}
}

static struct store_shard *partition;

static int setup(void **state)
{
	static struct harness h;
	harness_init(&h);
	harness_open_up(&h);
	partition = store_shard_create(SLICE("/"), SLICE("events"), 3);
	*state = &h;
	return 0;
}

static int teardown(void **state)
{
	struct harness *h = *state;
	store_shard_destroy(partition);
	harness_close(h);
	harness_deinit(h);
	return 0;
}

static struct store_log_batch batch(uint64_t base, const char *bytes)
{
	return (struct store_log_batch){ base, slice_from(bytes) };
}

static struct outcome append(struct harness *h, const struct store_log_append *a)
{
	struct outcome o = { 0 };
	store_log_append(h->store, partition, a, on_appended, &o);
	assert_int_equal(o.calls, 0);
	WAIT(h, o.calls == 1);
	return o;
}

static void append_ok(struct harness *h, const struct store_log_append *a)
{
	struct outcome o = append(h, a);
	if (o.status < 0)
		fail_msg("%s", o.text);
	assert_false(o.is_unsure);
}

/* Batches a, b, c at 0, 10, 20 of a first day, d at 30 of the next. */
static void append_two_days(struct harness *h)
{
	const struct store_log_batch first[] = { batch(0, "a"), batch(10, "b"),
						 batch(20, "c") };
	const struct store_log_batch second = batch(30, "d");

	append_ok(h, &(struct store_log_append){ .day = 20261123,
						 .batches = first,
						 .count = 3,
						 .is_new_day = true,
						 .first_ms = 1795255951123,
						 .largest = 500 });
	append_ok(h, &(struct store_log_append){ .day = 20261124,
						 .batches = &second,
						 .count = 1,
						 .is_new_day = true,
						 .position = 700,
						 .first_ms = 1795305600000 });
}

static void assert_read(struct harness *h, uint32_t day, uint64_t offset, unsigned count,
			const char *want)
{
	struct reading r = { 0 };
	store_log_read(h->store, partition, day, offset, count, on_rows, &r);
	WAIT(h, r.calls == 1);
	assert_int_equal(r.status, TIDE_OK);
	assert_string_equal(r.text, want);
}

/* ---- append ------------------------------------------------------------------- */

STORE_TEST(what_is_appended_lies_where_the_manual_says)
{
	append_two_days(h);
	assert_text(h, "HGET " KEY("log") " 20261123", "0 0 1795255951123");
	assert_text(h, "HGET " KEY("log") " 20261124", "30 700 1795305600000");
	assert_text(h, "HGET " KEY("log") " largest", "500");
	assert_text(h, "ZSCORE " DAY " b", "10");
	assert_int_equal(ask_int(h, "ZCARD " DAY), 3);
	assert_text(h, "ZSCORE " NEXT_DAY " d", "30");
	assert_int_equal(ask_int(h, "DBSIZE"), 3);
}

STORE_TEST(an_append_that_is_sent_twice_is_there_once)
{
	append_two_days(h);
	append_two_days(h);
	assert_int_equal(ask_int(h, "ZCARD " DAY), 3);
	assert_int_equal(ask_int(h, "ZCARD " NEXT_DAY), 1);
}

STORE_TEST(the_most_batches_and_the_largest_offset_pass)
{
	static char bytes[STORE_LOG_BATCHES_MAX][70000];
	struct store_log_batch batches[STORE_LOG_BATCHES_MAX];
	uint64_t base = (UINT64_C(1) << 53) - STORE_LOG_BATCHES_MAX + 1;
	struct reading r = { 0 };
	for (unsigned i = 0; i < STORE_LOG_BATCHES_MAX; i++) {
		memset(bytes[i], 'a' + (int)i, sizeof(bytes[i]));
		batches[i] = (struct store_log_batch){ base + i, { bytes[i], 70000 } };
	}
	append_ok(h, &(struct store_log_append){ .day = 20261123,
						 .batches = batches,
						 .count = STORE_LOG_BATCHES_MAX });
	store_log_read(h->store, partition, 20261123, base, 1024, on_rows, &r);
	WAIT(h, r.calls == 1);
	assert_int_equal(r.count, STORE_LOG_BATCHES_MAX);
	assert_int_equal(r.bytes, STORE_LOG_BATCHES_MAX * 70000);
	assert_int_equal(strncmp(r.text, "9007199254740929:aaaa", 21), 0);
	assert_read(h, 20261123, UINT64_C(1) << 53, 0,
		    "9007199254740992:"
		    "\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0"
		    "\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0"
		    "\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0");
}

STORE_TEST(an_append_first_removes_what_a_refused_one_has_left)
{
	static const uint32_t days[] = { 20261123, 20261124 };
	const struct store_log_batch again = batch(20, "x");
	append_two_days(h);
	append_ok(h, &(struct store_log_append){ .day = 20261124,
						 .batches = &again,
						 .count = 1,
						 .truncate_days = days,
						 .truncate_count = 2,
						 .is_new_day = true,
						 .position = 600 });
	assert_read(h, 20261123, 0, 10, "0:a 10:b");
	assert_read(h, 20261124, 0, 10, "20:x");
}

STORE_TEST(what_memory_refuses_leaves_nothing_but_a_truncation_passes)
{
	static const uint32_t days[] = { 20261123 };
	const struct store_log_batch more = batch(20, "x");
	struct store_log_append a = { .day = 20261125,
				      .batches = &more,
				      .count = 1,
				      .truncate_days = days,
				      .truncate_count = 1,
				      .is_new_day = true };
	append_two_days(h);
	tell(h, "CONFIG SET maxmemory 1");
	struct outcome o = append(h, &a);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_int_equal(strncmp(o.text, "OOM ", 4), 0);
	assert_false(o.is_unsure);
	a.is_new_day = false;
	o = append(h, &a);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_int_equal(strncmp(o.text, "OOM ", 4), 0);
	assert_false(o.is_unsure);
	tell(h, "CONFIG SET maxmemory 0");
	assert_text(h, "HGET " KEY("log") " 20261125", NULL);
	assert_int_equal(ask_int(h, "EXISTS " KEY("log:20261125")), 0);
	assert_int_equal(ask_int(h, "ZCARD " DAY), 2);
}

STORE_TEST(a_part_of_an_append_that_was_refused_makes_it_unsure)
{
	const struct store_log_batch b = batch(0, "a");
	static const uint32_t days[] = { 20261122 };
	struct outcome o;
	tell(h, "SET " KEY("log") " x");
	o = append(h, &(struct store_log_append){ .day = 20261123,
						  .batches = &b,
						  .count = 1,
						  .is_new_day = true });
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_int_equal(strncmp(o.text, "WRONGTYPE", 9), 0);
	assert_true(o.is_unsure);
	tell(h, "SET " KEY("log:20261122") " x");
	o = append(h, &(struct store_log_append){ .day = 20261123,
						  .batches = &b,
						  .count = 1,
						  .truncate_days = days,
						  .truncate_count = 1 });
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_true(o.is_unsure);
	assert_read(h, 20261123, 0, 2, "0:a");
	tell(h, "DEL " DAY);
	tell(h, "SET " DAY " x");
	o = append(h, &(struct store_log_append){
			      .day = 20261123, .batches = &b, .count = 1 });
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_false(o.is_unsure);
}

/* ---- publish ids -------------------------------------------------------------- */

#define IDS KEY("dedupe")

/* "a", "b" ... at the offsets from `base` on. */
static struct buf seen_words(unsigned count, uint64_t base)
{
	struct buf words = { 0 };
	char publish_id = 'a';
	for (unsigned i = 0; i < count; i++, publish_id++)
		store_dedupe_add_words(
			&words, &(struct store_seen){ .publish_id = { &publish_id, 1 },
						      .msg_id = 7,
						      .has_offset = true,
						      .offset = base + i,
						      .until_unix_ms = 1000 + i });
	return words;
}

STORE_TEST(publish_ids_are_written_with_their_messages)
{
	const struct store_log_batch b = batch(3, "x");
	struct buf words = seen_words(2, 3);
	struct store_log_append a = { .day = 20261123,
				      .batches = &b,
				      .count = 1,
				      .seen = buf_slice(&words),
				      .seen_count = 2 };
	append_ok(h, &a);
	append_ok(h, &a);
	assert_int_equal(ask_int(h, "ZCARD " IDS), 2);
	assert_int_equal(ask_int(h, "ZCARD " DAY), 1);
	tell(h, "DEL " IDS " " DAY);
	tell(h, "CONFIG SET maxmemory 1");
	assert_int_equal(append(h, &a).status, TIDE_ESTORE);
	tell(h, "CONFIG SET maxmemory 0");
	assert_int_equal(ask_int(h, "DBSIZE"), 0);
	a.is_new_day = true;
	append_ok(h, &a);
	assert_text(h, "HGET " KEY("log") " 20261123", "3 0 0");
	assert_int_equal(ask_int(h, "ZCARD " IDS), 2);
	redisReply *reply = ask(h, "ZSCORE %s %s", IDS, "0000000000000007@4 b");
	assert_string_equal(reply->str, "1001");
	freeReplyObject(reply);
	buf_deinit(&words);
}

STORE_TEST(publish_ids_of_a_refused_append_go_with_its_messages)
{
	static const uint32_t days[] = { 20261123 };
	const struct store_log_batch before = batch(0, "w"), b = batch(3, "x");
	struct buf words = seen_words(3, 0), unsure = seen_words(2, 1);
	struct store_log_append a = { .day = 20261123,
				      .batches = &before,
				      .count = 1,
				      .seen = buf_slice(&words),
				      .seen_count = 3 };
	/* As though a refused append had left two there. */
	append_ok(h, &a);
	tell(h, "ZADD %s 5 %s 6 %s", IDS, "0000000000000007@1 a", "0000000000000007@2 b");
	assert_int_equal(ask_int(h, "ZCARD " IDS), 5);
	a.batches = &b;
	a.seen_count = 0;
	a.truncate_days = days;
	a.truncate_count = 1;
	a.unsure_seen = buf_slice(&unsure);
	a.unsure_seen_count = 2;
	tell(h, "CONFIG SET maxmemory 1");
	assert_int_equal(append(h, &a).status, TIDE_ESTORE);
	tell(h, "CONFIG SET maxmemory 0");
	assert_int_equal(ask_int(h, "ZCARD " IDS), 3);
	append_ok(h, &a);
	assert_read(h, 20261123, 0, 10, "0:w 3:x");
	buf_deinit(&words);
	buf_deinit(&unsure);
}

#define KILL_APPENDS 40

STORE_TEST(appends_survive_the_death_of_redis_in_their_order)
{
	static char bytes[KILL_APPENDS][8];
	static struct outcome outcomes[KILL_APPENDS];
	static const uint32_t days[] = { 20261123 };
	long pid = harness_redis_pid(h);
	struct reading r = { 0 };
	memset(outcomes, 0, sizeof(outcomes));
	for (unsigned i = 0; i < KILL_APPENDS; i++) {
		snprintf(bytes[i], sizeof(bytes[i]), "b%u", i);
		const struct store_log_batch b = batch(i, bytes[i]);

		/* Each truncates what a repetition has left behind it. */
		store_log_append(h->store, partition,
				 &(struct store_log_append){ .day = 20261123,
							     .batches = &b,
							     .count = 1,
							     .truncate_days = days,
							     .truncate_count = 1,
							     .is_new_day = i % 2 },
				 on_appended, &outcomes[i]);
		if (i == KILL_APPENDS / 2) {
			WAIT(h, outcomes[10].calls == 1);
			assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
		}
	}
	for (unsigned i = 0; i < KILL_APPENDS; i++) {
		WAIT(h, outcomes[i].calls > 0);
		assert_int_equal(outcomes[i].calls, 1);
		assert_int_equal(outcomes[i].status, TIDE_OK);
	}
	store_log_read(h->store, partition, 20261123, 0, 1024, on_rows, &r);
	WAIT(h, r.calls == 1);
	assert_int_equal(r.count, KILL_APPENDS);
	assert_int_equal(strncmp(r.text, "0:b0 1:b1 2:b2 ", 15), 0);
}

STORE_TEST(an_append_that_ends_with_the_store_is_unsure)
{
	const struct store_log_batch b = batch(0, "a");
	struct outcome o = { 0 };
	struct reading r = { 0 };
	long pid = harness_redis_pid(h);
	assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
	store_log_append(
		h->store, partition,
		&(struct store_log_append){ .day = 20261123, .batches = &b, .count = 1 },
		on_appended, &o);
	store_log_read(h->store, partition, 20261123, 0, 10, on_rows, &r);
	store_shard_destroy(h->shard);
	store_close(h->store, 50, harness_on_closed, h);
	WAIT(h, o.calls == 1 && r.calls == 1);
	assert_int_equal(kill((pid_t)pid, SIGCONT), 0);
	WAIT(h, h->is_closed);
	assert_int_equal(o.status, TIDE_ESHUTDOWN);
	assert_true(o.is_unsure);
	assert_int_equal(r.status, TIDE_ESHUTDOWN);
	harness_open_up(h);
}

/* ---- replace, trim, commit --------------------------------------------------------- */

static void replace(struct harness *h, const struct store_log_replace *replace,
		    struct outcome *o)
{
	memset(o, 0, sizeof(*o));
	store_log_replace(h->store, partition, replace, on_done, o);
	WAIT(h, o->calls == 1);
}

STORE_TEST(batches_are_replaced_at_once_or_not_at_all)
{
	const struct store_log_batch merged = batch(0, "ab");
	struct store_log_replace r = { 20261123, 0, 10, &merged, 1 };
	struct outcome o;
	append_two_days(h);
	tell(h, "CONFIG SET maxmemory 1");
	replace(h, &r, &o);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_int_equal(strncmp(o.text, "OOM ", 4), 0);
	assert_read(h, 20261123, 0, 10, "0:a 10:b 20:c");
	tell(h, "CONFIG SET maxmemory 0");
	for (int i = 0; i < 2; i++) { /* the second time as after a reconnect */
		replace(h, &r, &o);
		assert_int_equal(o.status, TIDE_OK);
		assert_read(h, 20261123, 0, 10, "0:ab 20:c");
	}
	tell(h, "CONFIG SET maxmemory 1");
	r = (struct store_log_replace){ .day = 20261123, .from = 20, .to = 20 };
	replace(h, &r, &o);
	assert_int_equal(o.status, TIDE_OK);
	tell(h, "CONFIG SET maxmemory 0");
	assert_read(h, 20261123, 0, 10, "0:ab");
	/* An error within the EXEC is one of the request. */
	tell(h, "SET " NEXT_DAY " x");
	r = (struct store_log_replace){ 20261124, 30, 30, &merged, 1 };
	replace(h, &r, &o);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_int_equal(strncmp(o.text, "WRONGTYPE", 9), 0);
}

static void on_trimmed(void *ctx, int status, const char *text, uint64_t left)
{
	on_done(ctx, status, text);
	assert_int_equal(left, 0);
}

static void trim(struct harness *h, uint64_t start, unsigned day_count, uint32_t day)
{
	static const uint32_t days[] = { 20261122, 20261123 };
	const struct store_log_trim trim = { start, days, day_count, day };
	struct outcome o = { 0 };
	store_log_trim(h->store, partition, &trim, on_trimmed, &o);
	WAIT(h, o.calls == 1);
	if (o.status < 0)
		fail_msg("%s", o.text);
}

STORE_TEST(a_trim_keeps_the_batch_that_has_the_start)
{
	append_two_days(h);
	tell(h, "CONFIG SET maxmemory 1");
	trim(h, 9, 0, 20261123);
	assert_read(h, 20261123, 0, 10, "0:a 10:b 20:c");
	trim(h, 15, 0, 20261123);
	assert_read(h, 20261123, 0, 10, "10:b 20:c");
	trim(h, 15, 0, 20261123);
	assert_read(h, 20261123, 0, 10, "10:b 20:c");
	assert_text(h, "HGET " KEY("log") " start", "15");
	/* The last one tells where the log ends. */
	trim(h, 30, 0, 20261123);
	assert_read(h, 20261123, 0, 10, "20:c");
	trim(h, 31, 2, 0);
	assert_int_equal(ask_int(h, "EXISTS " DAY), 0);
	assert_text(h, "HGET " KEY("log") " 20261123", NULL);
	assert_text(h, "HGET " KEY("log") " start", "31");
	assert_read(h, 20261124, 0, 10, "30:d");
	tell(h, "CONFIG SET maxmemory 0");
}

STORE_TEST(groups_commit_and_are_forgotten)
{
	const struct store_log_group groups[] = { { SLICE("billing"), 17 },
						  { SLICE("search"), 9 } };
	const struct store_log_commit commit = { groups, 2, false };
	const struct store_log_commit removal = { groups, 1, true };
	struct outcome o = { 0 };
	store_log_commit(h->store, partition, &commit, NULL, NULL);
	store_log_commit(h->store, partition, &commit, on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	assert_text(h, "HGET " KEY("groups") " billing", "17");
	assert_int_equal(ask_int(h, "HLEN " KEY("groups")), 2);
	tell(h, "CONFIG SET maxmemory 1");
	store_log_commit(h->store, partition, &removal, on_done, &o);
	WAIT(h, o.calls == 2);
	assert_int_equal(o.status, TIDE_OK);
	tell(h, "CONFIG SET maxmemory 0");
	assert_text(h, "HGET " KEY("groups") " billing", NULL);
	assert_text(h, "HGET " KEY("groups") " search", "9");
}

/* ---- read ------------------------------------------------------------------------- */

STORE_TEST(a_read_begins_with_the_batch_that_has_the_offset)
{
	append_two_days(h);
	assert_read(h, 20261123, 0, 1, "0:a");
	assert_read(h, 20261123, 9, 1, "0:a");
	assert_read(h, 20261123, 10, 1, "10:b");
	assert_read(h, 20261123, 11, 2, "10:b 20:c");
	assert_read(h, 20261123, 9, 1024, "0:a 10:b 20:c");
	assert_read(h, 20261123, 5000, 10, "20:c");
	assert_read(h, 20261122, 0, 10, "");
}

STORE_TEST(a_read_passes_over_gaps_and_what_is_no_batch)
{
	const struct store_log_batch far = batch(1000, "e");
	append_two_days(h);
	append_ok(h, &(struct store_log_append){
			     .day = 20261124, .batches = &far, .count = 1 });
	trim(h, 10, 0, 20261123);
	/* Below the first one there is nothing but what follows. */
	assert_read(h, 20261123, 3, 10, "10:b 20:c");
	assert_read(h, 20261124, 500, 10, "30:d 1000:e");
	tell(h, "ZADD " NEXT_DAY " 31.5 odd -2 below");
	assert_read(h, 20261124, 31, 10, "30:d 1000:e");
	assert_read(h, 20261124, 29, 1, "");
}

STORE_TEST(an_error_of_redis_gives_no_rows)
{
	struct reading r = { 0 };
	tell(h, "SET " DAY " x");
	store_log_read(h->store, partition, 20261123, 0, 10, on_rows, &r);
	WAIT(h, r.calls == 1);
	assert_int_equal(r.status, TIDE_ESTORE);
	assert_int_equal(r.count, 0);
}

/* The connection is lost between the two replies: the first is forgotten. */
STORE_TEST(a_read_that_was_cut_short_begins_again)
{
	struct fake_redis f;
	struct reading r = { 0 };
	static const char *const script[] = {
		HELLO, "*2\r\n$3\r\nold\r\n$1\r\n7\r\nwhat?\r\n", HELLO,
		"*2\r\n$3\r\nnew\r\n$1\r\n5\r\n*2\r\n$4\r\nnext\r\n$1\r\n9\r\n"
	};
	harness_close(h);
	fake_start(&f, h, script, 4);
	WAIT(h, h->state == STORE_UP);
	store_log_read(h->store, partition, 20261123, 8, 10, on_rows, &r);
	WAIT(h, r.calls == 1);
	assert_int_equal(r.status, TIDE_OK);
	assert_string_equal(r.text, "5:new 9:next");
	fake_end(&f, h);
	harness_open_up(h);
}

/* Of an append that was written to a connection that was lost nobody knows. */
STORE_TEST(an_append_that_was_sent_again_is_unsure)
{
	struct fake_redis f;
	struct outcome o = { 0 };
	const struct store_log_batch b = batch(0, "a");
	static const char *const script[] = {
		HELLO, "what?\r\n", HELLO, "+OK\r\n+QUEUED\r\n-OOM no\r\n-EXECABORT x\r\n"
	};
	harness_close(h);
	fake_start(&f, h, script, 4);
	WAIT(h, h->state == STORE_UP);
	store_log_append(
		h->store, partition,
		&(struct store_log_append){
			.day = 20261123, .batches = &b, .count = 1, .is_new_day = true },
		on_appended, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_string_equal(o.text, "OOM no");
	assert_true(o.is_unsure);
	fake_end(&f, h);
	harness_open_up(h);
}

/* ---- recover ---------------------------------------------------------------------- */

struct recovered {
	unsigned calls;
	int status;
	char text[512];
};

static void on_state(void *ctx, int status, const char *text,
		     const struct store_log_state *state)
{
	struct recovered *r = ctx;
	char *at = r->text, *end = r->text + sizeof(r->text);
	r->calls++;
	r->status = status;
	if (status < 0) {
		assert_null(state);
		return;
	}
	at += snprintf(at, (size_t)(end - at), "%llu %llu",
		       (unsigned long long)state->start,
		       (unsigned long long)state->largest);
	for (size_t i = 0; i < state->day_count; i++)
		at += snprintf(at, (size_t)(end - at), ", %08u %llu %llu %lld",
			       state->days[i].day,
			       (unsigned long long)state->days[i].base,
			       (unsigned long long)state->days[i].position,
			       (long long)state->days[i].first_ms);
	for (size_t i = 0; i < state->group_count; i++)
		at += snprintf(at, (size_t)(end - at), ", %.*s=%llu",
			       SLICE_ARG(state->groups[i].name),
			       (unsigned long long)state->groups[i].committed);
	if (state->last.bytes.data)
		snprintf(at, (size_t)(end - at), ", last %llu:%.*s",
			 (unsigned long long)state->last.base,
			 SLICE_ARG(state->last.bytes));
}

static void assert_recovered(struct harness *h, int status, const char *want)
{
	struct recovered r = { 0 };
	store_log_recover(h->store, partition, on_state, &r);
	WAIT(h, r.calls == 1);
	assert_int_equal(r.status, status);
	assert_string_equal(r.text, want);
}

STORE_TEST(a_new_partition_has_nothing)
{
	assert_recovered(h, TIDE_OK, "0 0");
}

STORE_TEST(days_groups_and_the_last_batch_come_back)
{
	const struct store_log_group groups[] = { { SLICE("billing"), 17 },
						  { SLICE("a=b"), 9 } };
	const struct store_log_commit commit = { groups, 2, false };
	append_two_days(h);
	store_log_commit(h->store, partition, &commit, NULL, NULL);
	trim(h, 12, 0, 20261123);
	assert_recovered(h, TIDE_OK,
			 "12 500, 20261123 0 0 1795255951123, "
			 "20261124 30 700 1795305600000, billing=17, a=b=9, last 30:d");
}

/* The first appends of two days were refused, or their batches removed. */
STORE_TEST(days_without_batches_are_passed_over)
{
	append_two_days(h);
	tell(h, "DEL " NEXT_DAY);
	tell(h, "HSET " KEY("log") " 20261125 %s", "30 700 1795392000000");
	assert_recovered(h, TIDE_OK,
			 "0 500, 20261123 0 0 1795255951123, "
			 "20261124 30 700 1795305600000, "
			 "20261125 30 700 1795392000000, last 20:c");
	tell(h, "DEL " DAY);
	assert_recovered(h, TIDE_OK,
			 "0 500, 20261123 0 0 1795255951123, "
			 "20261124 30 700 1795305600000, "
			 "20261125 30 700 1795392000000");
}

STORE_TEST(what_cannot_be_read_is_left_out)
{
	append_two_days(h);
	tell(h, "HSET " KEY("log") " 2026112 x start y other 1 20261126 1");
	tell(h, "HSET " KEY("groups") " good 3 bad -3 worse x");
	assert_recovered(h, TIDE_OK,
			 "0 500, 20261123 0 0 1795255951123, "
			 "20261124 30 700 1795305600000, good=3, last 30:d");
	tell(h, "ZADD " NEXT_DAY " 77.5 odd");
	assert_recovered(h, TIDE_ESTORE, "");
	tell(h, "DEL " NEXT_DAY);
	tell(h, "SET " NEXT_DAY " x");
	assert_recovered(h, TIDE_ESTORE, "");
	tell(h, "DEL " KEY("groups"));
	tell(h, "SET " KEY("groups") " x");
	assert_recovered(h, TIDE_ESTORE, "");
}

RUN_TESTS(.setup = setup, .teardown = teardown)
