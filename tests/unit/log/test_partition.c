/* A partition over a real Redis: what is confirmed has its offset for good. */
#include "partition_rig.h"

#define LOG "tide:{//orders#3}:log"
#define IDS "tide:{//orders#3}:dedupe"

/* ---- appending -----------------------------------------------------------------------
 */

TEST_THAT(a_message_is_readable_once_redis_has_it)
{
	struct pub *pub = rig_publish(100);
	struct cursor *c = cursor_create(r.p, 0);
	struct record record;
	struct record_batch *batch;

	assert_int_equal(pub->offset, 0);
	assert_int_equal(partition_readable(r.p), 0);
	assert_true(r.env.unstored_bytes > 100);
	assert_int_equal(cursor_next(c, &record, &batch), TIDE_EMPTY);
	assert_int_equal(partition_due_ms(&r.env), r.env.now_ms);
	partition_flush(&r.env);
	assert_int_equal(flights(&r.env), 1);
	assert_int_equal(partition_due_ms(&r.env), 0);
	assert_int_equal(cursor_next(c, &record, &batch), TIDE_EMPTY);
	WAIT(&r.h, pub->is_told);
	assert_int_equal(pub->status, TIDE_OK);
	assert_true(r.news > 0);
	assert_int_equal(r.env.unstored_bytes, 0);
	assert_int_equal(partition_readable(r.p), 1);
	assert_int_equal(partition_last_ms(r.p), NOON_MS);
	assert_true(partition_bytes(r.p) > 100);
	rig_expect(c, 0);
	cursor_destroy(c);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261123"), 1);
}

TEST_THAT(what_comes_between_two_flushes_is_one_batch)
{
	rig_publish_all(50, 100);
	rig_publish_all(30, 100);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261123"), 2);
	assert_int_equal(ask_int(&r.h, "ZCOUNT " LOG ":20261123 50 50"), 1);
	assert_int_equal(r.env.stats.batches, 2);
	assert_int_equal(r.env.stats.appended, 80);
}

TEST_THAT(what_comes_during_a_flight_waits_for_its_end)
{
	rig_publish(100);
	partition_flush(&r.env);
	rig_publish(100);
	partition_flush(&r.env);
	assert_int_equal(flights(&r.env), 1);
	WAIT(&r.h, flights(&r.env) == 0);
	assert_int_equal(partition_readable(r.p), 1);
	assert_int_equal(partition_due_ms(&r.env), r.env.now_ms);
	rig_settle();
	assert_int_equal(partition_readable(r.p), 2);
}

TEST_THAT(long_batches_are_cut_and_one_append_has_64_at_most)
{
	for (unsigned i = 0; i < 6000; i++)
		rig_publish(1000);
	partition_flush(&r.env);
	WAIT(&r.h, flights(&r.env) == 0);
	assert_true(r.stored_count < 6000);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261123"), STORE_LOG_BATCHES_MAX);
	rig_settle();
	assert_int_equal(r.stored_count, 6000);
	r.env.tail_max_bytes = 0;
	partition_shrink(&r.env);
	rig_expect_all_from(0);
}

TEST_THAT(a_message_longer_than_a_batch_is_a_batch)
{
	rig_publish(100);
	rig_publish(200000);
	rig_publish(100);
	rig_settle();
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261123"), 3);
	r.env.tail_max_bytes = 0;
	partition_shrink(&r.env);
	rig_expect_all_from(0);
	assert_text(&r.h, "HGET " LOG " largest", "262144");
}

/* ---- days and times -------------------------------------------------------------------
 */

TEST_THAT(each_utc_day_has_its_key)
{
	r.env.now_ms = NOON_MS + DAY_MS / 2 - 1;
	rig_publish(100);
	r.env.now_ms++;
	rig_publish(100);
	rig_settle();
	assert_int_equal(r.stored_count, 2);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261123"), 1);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261124"), 1);
	r.env.now_ms += 10 * DAY_MS;
	rig_publish_all(3, 100);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261204"), 1);
	assert_int_equal(ask_int(&r.h, "HEXISTS " LOG " 20261204"), 1);
	r.env.tail_max_bytes = 0;
	partition_shrink(&r.env);
	rig_expect_all_from(0);
}

TEST_THAT(times_and_days_never_go_back)
{
	struct cursor *c = cursor_create(r.p, 0);
	struct record record;

	r.env.now_ms = NOON_MS + DAY_MS;
	rig_publish(100);
	r.env.now_ms = NOON_MS;
	rig_publish_all(1, 100);
	rig_publish_all(1, 100);
	assert_int_equal(ask_int(&r.h, "EXISTS " LOG ":20261123"), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rig_next(c, &record), TIDE_OK);
		assert_int_equal(record.msg.ts_unix_ms, NOON_MS + DAY_MS);
	}
	assert_int_equal(rig_recover(), TIDE_OK);
	r.env.now_ms = NOON_MS;
	rig_publish_all(1, 100);
	assert_int_equal(partition_last_ms(r.p), NOON_MS + DAY_MS);
	cursor_destroy(c);
}

/* ---- refusals
 * -------------------------------------------------------------------------- */

TEST_THAT(what_redis_refuses_fails_with_all_that_gathered_behind_it)
{
	struct pub *first, *second;
	uint64_t bytes;

	rig_publish_all(3, 100);
	bytes = partition_bytes(r.p);
	tell(&r.h, "CONFIG SET maxmemory 1");
	first = rig_publish(100);
	partition_flush(&r.env);
	second = rig_publish(100);
	assert_int_equal(second->offset, 4);
	WAIT(&r.h, first->is_told && second->is_told);
	assert_int_equal(first->status, TIDE_ESTORE);
	assert_int_equal(second->status, TIDE_ESTORE);
	assert_int_equal(partition_end(r.p), 3);
	assert_int_equal(r.env.unstored_bytes, 0);
	assert_int_equal(r.env.stats.refused, 2);
	/* After a rest the offsets are given again. */
	first = rig_publish(100);
	assert_int_equal(first->offset, 3);
	assert_int_equal(partition_due_ms(&r.env), r.env.now_ms + 200);
	partition_flush(&r.env);
	assert_int_equal(flights(&r.env), 0);
	tell(&r.h, "CONFIG SET maxmemory 0");
	rig_settle();
	assert_int_equal(r.stored_count, 4);
	assert_true(partition_bytes(r.p) - bytes < 200);
	r.env.tail_max_bytes = 0;
	partition_shrink(&r.env);
	rig_expect_all_from(0);
}

TEST_THAT(the_first_append_may_be_refused)
{
	tell(&r.h, "CONFIG SET maxmemory 1");
	rig_publish_all(3, 100);
	assert_int_equal(r.refused, 3);
	tell(&r.h, "CONFIG SET maxmemory 0");
	rig_publish_all(3, 100);
	assert_int_equal(r.stored_count, 3);
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_readable(r.p), 3);
	rig_expect_all_from(0);
}

static uint64_t publish_seen(const char *publish_id)
{
	struct msg m = { .key = SLICE("k"), .payload = "", .payload_len = 0 };
	struct store_seen seen = { .publish_id = slice_from(publish_id),
				   .msg_id = 9,
				   .until_unix_ms = NOON_MS + DAY_MS };

	return partition_append_seen(r.p, &m, &seen, NULL);
}

/* What a refused append may have left is no message. */
TEST_THAT(an_append_that_may_have_been_carried_out_is_removed)
{
	struct pub *pub;

	rig_publish_all(3, 100);
	tell(&r.h, "CONFIG SET maxmemory 1");
	tell(&r.h, "CLIENT PAUSE 60000 WRITE");
	pub = rig_publish(100);
	publish_seen("a");
	for (int i = 0; i < 20; i++) {
		rig_turn();
		usleep(1000);
	}
	tell(&r.h, "CLIENT KILL TYPE normal SKIPME yes");
	tell(&r.h, "CLIENT UNPAUSE");
	WAIT(&r.h, pub->is_told);
	assert_int_equal(pub->status, TIDE_ESTORE);
	tell(&r.h, "CONFIG SET maxmemory 0");
	tell(&r.h, "ZADD " LOG ":20261123 3 left 4 over");
	tell(&r.h, "ZADD " IDS " 1 %s 2 %s", "0000000000000009@2 x",
	     "0000000000000009@4 a");
	r.env.now_ms += DAY_MS;
	rig_publish_all(1, 100);
	assert_int_equal(r.stored_count, 4);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261123"), 1);
	/* Its publish id, and no other. */
	tell(&r.h, "ZREM " IDS " %s", "0000000000000009@2 x");
	assert_int_equal(ask_int(&r.h, "ZCARD " IDS), 0);
	r.env.tail_max_bytes = 0;
	partition_shrink(&r.env);
	rig_expect_all_from(0);
	/* Once is enough. */
	tell(&r.h, "ZADD " LOG ":20261123 100 other");
	rig_publish_all(1, 100);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261123"), 2);
}

/* ---- a new process
 * --------------------------------------------------------------------- */

static void commit(const char *group, uint64_t offset)
{
	struct store_log_group g = { slice_from(group), offset };
	struct store_log_commit c = { &g, 1, false };

	partition_commit(r.p, &c, NULL, NULL);
}

TEST_THAT(a_new_process_finds_what_was_there)
{
	uint64_t bytes;
	int64_t last_ms;

	rig_publish_all(300, 1000);
	r.env.now_ms += DAY_MS;
	rig_publish_all(300, 1000);
	commit("billing", 17);
	bytes = partition_bytes(r.p);
	last_ms = partition_last_ms(r.p);
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_start(r.p), 0);
	assert_int_equal(partition_readable(r.p), 600);
	assert_int_equal(partition_end(r.p), 600);
	assert_int_equal(partition_bytes(r.p), bytes);
	assert_int_equal(partition_last_ms(r.p), last_ms);
	assert_int_equal(recovery.groups, 1);
	assert_int_equal(recovery.committed, 17);
	rig_expect_all_from(0);
	rig_publish_all(10, 1000);
	rig_expect_all_from(590);
	rig_expect_all_from(0);
}

TEST_THAT(a_partition_that_was_never_used_begins_at_0)
{
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_end(r.p), 0);
	rig_publish_all(2, 100);
	rig_expect_all_from(0);
}

TEST_THAT(many_partitions_are_read_some_at_a_time)
{
	enum { COUNT = 1000 };
	static struct partition *partitions[COUNT];
	struct partition *first = r.p;
	struct store_stats stats;

	for (unsigned i = 0; i < COUNT; i++) {
		r.p = partitions[i] = partition_create(
			&r.env, &r, i,
			store_shard_create(SLICE("/"), SLICE("orders"), i));
		if (i % 100 == 0)
			rig_publish_all(1, 100);
		r.stored_count = 0;
	}
	for (unsigned i = 0; i < COUNT; i++) {
		partition_close(partitions[i]);
		partitions[i] = partition_create(
			&r.env, &r, i,
			store_shard_create(SLICE("/"), SLICE("orders"), i));
	}
	memset(&recovery, 0, sizeof(recovery));
	waiter_init(&recovery.waiter, rig_on_recovered);
	for (unsigned i = 0; i < COUNT; i++)
		partition_recover(partitions[i], rig_on_group, &recovery.waiter);
	store_stats(r.h.store, &stats);
	assert_true(stats.pending_requests <= 256);
	waiter_done(&recovery.waiter, TIDE_OK, NULL);
	WAIT(&r.h, recovery.is_done);
	assert_int_equal(recovery.status, TIDE_OK);
	for (unsigned i = 0; i < COUNT; i++) {
		assert_int_equal(partition_readable(partitions[i]), i % 100 == 0);
		partition_close(partitions[i]);
	}
	r.p = first;
}

TEST_THAT(those_that_wait_to_be_read_are_told_when_the_store_closes)
{
	struct partition *partitions[600];

	memset(&recovery, 0, sizeof(recovery));
	waiter_init(&recovery.waiter, rig_on_recovered);
	for (unsigned i = 0; i < 600; i++) {
		partitions[i] = partition_create(
			&r.env, &r, i,
			store_shard_create(SLICE("/"), SLICE("orders"), i));
		partition_recover(partitions[i], rig_on_group, &recovery.waiter);
	}
	waiter_done(&recovery.waiter, TIDE_OK, NULL);
	store_close(r.h.store, 0, harness_on_closed, &r.h);
	WAIT(&r.h, r.h.is_closed);
	assert_true(recovery.is_done);
	assert_int_equal(recovery.status, TIDE_ESHUTDOWN);
	for (unsigned i = 0; i < 600; i++)
		partition_close(partitions[i]);
	store_shard_destroy(r.h.shard);
	harness_open_up(&r.h);
	r.env.store = r.h.store;
}

TEST_THAT(a_state_that_begins_behind_the_last_batch_counts)
{
	rig_publish_all(5, 100);
	tell(&r.h, "HSET " LOG " start 50");
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_start(r.p), 50);
	assert_int_equal(partition_end(r.p), 50);
}

static void damage(const char *script)
{
	tell(&r.h, "EVAL %s 1 " LOG ":20261123", script);
}

/* Byte `at` of the last batch is another one. */
#define FLIP(at)                                                          \
	"local m = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')\n" \
	"local b = m[1]\n"                                                \
	"local c = string.char(255 - string.byte(b, " #at "))\n"          \
	"redis.call('ZREM', KEYS[1], b)\n"                                \
	"redis.call('ZADD', KEYS[1], m[2], string.sub(b, 1, " #at         \
	" - 1) .. c .. string.sub(b, " #at " + 1))\n"

TEST_THAT(a_damaged_last_batch_keeps_its_offsets)
{
	rig_publish_all(5, 100);
	rig_publish_all(7, 100);
	damage(FLIP(100));
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_readable(r.p), 12);
	r.stored_count = 12;
	rig_publish_all(1, 100);
	rig_expect_all_from(12);
}

TEST_THAT(a_last_batch_without_a_head_is_an_error)
{
	rig_publish_all(5, 100);
	damage(FLIP(1));
	assert_int_equal(rig_recover(), TIDE_ESTORE);
	assert_non_null(strstr(recovery.text, LOG ":20261123, at offset 0"));
}

/* ---- trimming
 * -------------------------------------------------------------------------- */

struct outcome {
	unsigned calls;
	int status;
	uint64_t offset;
};

static void on_done(void *ctx, int status, const char *text)
{
	struct outcome *o = ctx;

	o->calls++;
	o->status = status;
}

static void trim(uint64_t start)
{
	struct outcome o = { 0 };

	partition_trim(r.p, start, on_done, &o);
	assert_int_equal(partition_start(r.p), start);
	assert_int_equal(o.calls, 0);
	rig_settle();
	WAIT(&r.h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
}

/* Ten days with ten batches of ten messages, too large to be merged. */
static void publish_days(void)
{
	for (unsigned day = 0; day < 10; day++) {
		for (unsigned i = 0; i < 10; i++)
			rig_publish_all(10, 1000);
		r.env.now_ms = NOON_MS + (day + 1) * DAY_MS;
	}
	assert_int_equal(r.stored_count, 1000);
}

TEST_THAT(what_is_trimmed_is_gone_and_days_are_dropped_whole)
{
	uint64_t all, bytes;

	publish_days();
	all = partition_bytes(r.p);
	trim(345);
	assert_int_equal(ask_int(&r.h, "EXISTS " LOG ":20261124 " LOG ":20261125"), 0);
	assert_int_equal(ask_int(&r.h, "HLEN " LOG), 2 + 7);
	/* The batch that has the start stays. */
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261126"), 6);
	bytes = partition_bytes(r.p);
	assert_true(bytes > all / 2 && bytes < all * 7 / 10);
	rig_expect_all_from(345);
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_start(r.p), 345);
	assert_int_equal(partition_bytes(r.p), bytes);
	rig_expect_all_from(345);
	trim(400);
	assert_int_equal(ask_int(&r.h, "EXISTS " LOG ":20261126"), 0);
	rig_expect_all_from(400);
}

TEST_THAT(after_all_was_trimmed_offsets_go_on)
{
	publish_days();
	trim(1000);
	assert_int_equal(partition_bytes(r.p), 0);
	assert_int_equal(r.env.tail_bytes, 0);
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_start(r.p), 1000);
	assert_int_equal(partition_end(r.p), 1000);
	assert_int_equal(partition_bytes(r.p), 0);
	rig_publish_all(5, 100);
	rig_expect_all_from(1000);
	assert_int_equal(rig_recover(), TIDE_OK);
	rig_expect_all_from(1000);
	assert_int_equal(partition_start(r.p), 1000);
}

TEST_THAT(what_is_under_way_outlives_a_trim_to_the_end)
{
	struct outcome o = { 0 };

	rig_publish_all(5, 100);
	rig_publish(100);
	partition_flush(&r.env);
	partition_trim(r.p, 5, on_done, &o);
	rig_publish(100);
	rig_settle();
	WAIT(&r.h, o.calls == 1);
	rig_expect_all_from(5);
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_readable(r.p), 7);
	rig_expect_all_from(5);
	trim(7);
	rig_publish_all(1, 100);
	assert_int_equal(ask_int(&r.h, "HEXISTS " LOG " 20261123"), 1);
	assert_int_equal(rig_recover(), TIDE_OK);
	rig_expect_all_from(7);
}

/* The day is removed, and comes again at once. */
TEST_THAT(a_day_that_is_being_removed_begins_anew)
{
	rig_publish_all(5, 100);
	partition_trim(r.p, 5, NULL, NULL);
	rig_publish_all(2, 100);
	assert_int_equal(ask_int(&r.h, "HEXISTS " LOG " 20261123"), 1);
	assert_int_equal(rig_recover(), TIDE_OK);
	rig_expect_all_from(5);
}

TEST_THAT(a_trim_that_fails_is_made_good_by_the_next_one)
{
	struct outcome o = { 0 };

	publish_days();
	tell(&r.h, "RENAME " LOG " kept");
	tell(&r.h, "SET " LOG " other");
	partition_trim(r.p, 345, on_done, &o);
	WAIT(&r.h, o.calls == 1);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_int_equal(partition_start(r.p), 345);
	tell(&r.h, "RENAME kept " LOG);
	trim(346);
	assert_int_equal(ask_int(&r.h, "EXISTS " LOG ":20261124 " LOG ":20261125"), 0);
	assert_int_equal(ask_int(&r.h, "HLEN " LOG), 2 + 7);
}

/* ---- times
 * ----------------------------------------------------------------------------- */

static void on_found(void *ctx, int status, const char *text, uint64_t offset)
{
	on_done(ctx, status, text);
	((struct outcome *)ctx)->offset = offset;
}

static uint64_t find_time(int64_t unix_ms)
{
	struct outcome o = { 0 };

	partition_find_time(r.p, unix_ms, on_found, &o);
	assert_int_equal(o.calls, 0);
	rig_turn();
	WAIT(&r.h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	return o.offset;
}

static void expect_time(int64_t unix_ms)
{
	uint64_t offset = partition_start(r.p);

	while (offset < r.stored_count && r.stored[offset]->ms < unix_ms)
		offset++;
	assert_int_equal(find_time(unix_ms), offset);
}

static void expect_times(void)
{
	expect_time(0);
	expect_time(r.env.now_ms + 1);
	for (unsigned i = 0; i < 200; i++)
		expect_time(NOON_MS - DAY_MS + pick(8 * 24 * 60) * MINUTE_MS);
	for (unsigned i = 0; i < 200; i++) {
		int64_t ms = r.stored[pick((unsigned)r.stored_count)]->ms;

		expect_time(ms);
		expect_time(ms + 1);
	}
}

TEST_THAT(a_time_is_found_wherever_it_lies)
{
	assert_int_equal(find_time(NOON_MS), 0);
	for (unsigned i = 0; i < 1000; i++) {
		rig_publish(100);
		if (pick(3) == 0)
			r.env.now_ms += pick(30) * MINUTE_MS;
		if (pick(5) == 0)
			rig_settle();
	}
	rig_settle();
	expect_times();
	r.env.tail_max_bytes = r.env.tail_bytes / 3;
	partition_shrink(&r.env);
	expect_times();
	r.env.tail_max_bytes = 0;
	partition_shrink(&r.env);
	expect_times();
	trim(r.stored_count / 2 + 7);
	expect_times();
}

/* ---- the end
 * ----------------------------------------------------------------------------- */

TEST_THAT(closing_tells_publishers_and_readers)
{
	struct cursor *c = cursor_create(r.p, 0);
	struct record record;
	struct record_batch *batch;
	struct pub *flying, *gathered;
	struct outcome o = { 0 };

	rig_publish_all(5, 100);
	rig_expect(c, 0);
	flying = rig_publish(100);
	partition_flush(&r.env);
	gathered = rig_publish(100);
	partition_find_time(r.p, NOON_MS, on_found, &o);
	partition_close(r.p);
	assert_int_equal(gathered->status, TIDE_ENOTFOUND);
	assert_int_equal(cursor_next(c, &record, &batch), TIDE_EMPTY);
	WAIT(&r.h, flying->is_told);
	assert_int_equal(flying->status, TIDE_ENOTFOUND);
	cursor_destroy(c);
	partition_flush(&r.env);
	assert_int_equal(o.status, TIDE_ENOTFOUND);
	rig_new_partition();
}

static void on_commit(void *ctx, int status, const char *text)
{
	*(int *)ctx = status;
}

/* The name is the caller's. */
static void commit_both(const char *group, uint64_t offset, int *status)
{
	char name[8];
	const struct store_log_group groups[] = {
		{ slice_from(strcpy(name, group)), offset }, { SLICE("same"), offset }
	};

	*status = 1;
	partition_commit(r.p, &(struct store_log_commit){ groups, 2, false }, on_commit,
			 status);
	memset(name, 'x', sizeof(name));
}

TEST_THAT(commits_wait_while_the_partition_is_held)
{
	static const char key[] = "tide:{//orders#3}:groups";
	char command[64];
	int first, second;

	partition_hold(r.p, true);
	commit_both("a", 1, &first);
	commit_both("b", 2, &second);
	rig_settle();
	snprintf(command, sizeof(command), "EXISTS %s", key);
	assert_int_equal(ask_int(&r.h, command), 0);
	partition_hold(r.p, false);
	WAIT(&r.h, second == TIDE_OK);
	assert_int_equal(first, TIDE_OK);
	snprintf(command, sizeof(command), "HGET %s a", key);
	assert_text(&r.h, command, "1");
	snprintf(command, sizeof(command), "HGET %s same", key);
	assert_text(&r.h, command, "2");
	partition_hold(r.p, true);
	commit_both("c", 3, &first);
	partition_close(r.p);
	assert_int_equal(first, TIDE_ENOTFOUND);
	rig_new_partition();
}

TEST_THAT(the_oldest_batch_of_all_partitions_leaves_memory_first)
{
	struct partition *first = r.p;
	size_t bytes;

	rig_publish_all(10, 1000);
	bytes = r.env.tail_bytes;
	r.p = partition_create(&r.env, &r, 4,
			       store_shard_create(SLICE("/"), SLICE("orders"), 4));
	assert_int_equal(partition_index(r.p), 4);
	r.stored_count = 0;
	rig_publish_all(10, 1000);
	r.env.tail_max_bytes = bytes + 100;
	rig_turn();
	assert_true(r.env.tail_bytes > 0 && r.env.tail_bytes <= bytes + 100);
	assert_ptr_equal(TAILQ_FIRST(&r.env.tail), TAILQ_LAST(&r.env.tail, tail_list));
	rig_expect_all_from(0);
	assert_int_equal(r.env.stats.read_batches, 0);
	partition_close(first);
}

/* ---- without keys
 * ------------------------------------------------------------------------- */

UNKEPT_TEST(without_keys_a_message_is_readable_at_the_end_of_the_turn)
{
	struct pub *pub = rig_publish(100);
	struct outcome o = { 0 };

	assert_int_equal(partition_readable(r.p), 0);
	assert_false(partition_is_idle(&r.env));
	assert_int_equal(partition_due_ms(&r.env), r.env.now_ms);
	partition_flush(&r.env);
	assert_int_equal(pub->status, TIDE_OK);
	assert_true(partition_is_idle(&r.env));
	assert_int_equal(partition_due_ms(&r.env), 0);
	rig_publish_all(100, 100);
	rig_expect_all_from(0);
	expect_time(NOON_MS);
	partition_commit(r.p, &(struct store_log_commit){ NULL, 0, false }, on_done, &o);
	partition_flush(&r.env);
	assert_int_equal(o.calls, 1);
	trim(50);
	rig_expect_all_from(50);
	trim(101);
	assert_int_equal(partition_bytes(r.p), 0);
	assert_int_equal(r.env.memory_bytes, 0);
}

UNKEPT_TEST(without_keys_the_newest_16_mib_are_kept)
{
	struct cursor *c = cursor_create(r.p, 0);
	struct record record;

	rig_publish_all(100, 1000);
	rig_expect(c, 0);
	for (unsigned i = 0; i < 40; i++)
		rig_publish_all(1000, 1000);
	assert_true(r.env.memory_bytes <= PARTITION_MEMORY_BYTES);
	assert_true(r.env.memory_bytes > PARTITION_MEMORY_BYTES * 9 / 10);
	assert_true(partition_start(r.p) > 20000);
	assert_true(partition_bytes(r.p) <= r.env.memory_bytes);
	assert_int_equal(rig_next(c, &record), TIDE_OK);
	assert_int_equal(record.offset, partition_start(r.p));
	rig_expect_all_from(partition_start(r.p));
	cursor_destroy(c);
}

/* A publisher that is told publishes again: that is for the next turn. */
static void on_told_again(struct waiter *w)
{
	struct msg m = { .id = 1, .payload = "again", .payload_len = 5 };

	if (partition_end(r.p) < 3)
		partition_append(r.p, &m, w);
}

UNKEPT_TEST(who_is_told_may_append)
{
	struct msg m = { .id = 1, .payload = "first", .payload_len = 5 };
	struct waiter w;

	waiter_init(&w, on_told_again);
	partition_append(r.p, &m, &w);
	waiter_done(&w, TIDE_OK, NULL);
	partition_flush(&r.env);
	assert_int_equal(partition_readable(r.p), 1);
	assert_int_equal(partition_end(r.p), 2);
	rig_settle();
	assert_int_equal(partition_readable(r.p), 3);
}

static void who_is_told_may_close(struct waiter *w)
{
	if (r.p)
		partition_close(r.p);
	r.p = NULL;
}

UNKEPT_TEST(a_partition_may_be_closed_by_who_is_told)
{
	struct msg m = { .id = 1, .payload = "first", .payload_len = 5 };
	struct waiter w[2];

	for (int i = 0; i < 2; i++) {
		waiter_init(&w[i], who_is_told_may_close);
		partition_append(r.p, &m, &w[i]);
		r.env.now_ms += DAY_MS;
		waiter_done(&w[i], TIDE_OK, NULL);
	}
	partition_flush(&r.env);
	assert_int_equal(w[0].remaining, 0);
	assert_int_equal(w[1].status, TIDE_ENOTFOUND);
	assert_null(r.p);
	rig_new_partition();
}

RUN_TESTS(.setup = rig_setup, .teardown = rig_teardown)
