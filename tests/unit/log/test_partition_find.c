/* Where a partition is cut by bytes and by age, and what Redis refuses to drop. */
#include "partition_rig.h"

#define LOG "tide:{//orders#3}:log"

struct outcome {
	unsigned calls;
	int status;
	uint64_t offset;
};

static void on_found(void *ctx, int status, const char *text, uint64_t offset)
{
	struct outcome *o = ctx;

	o->calls++;
	o->status = status;
	o->offset = offset;
}

static void on_done(void *ctx, int status, const char *text)
{
	on_found(ctx, status, text, 0);
}

static uint64_t find_bytes(uint64_t bytes)
{
	struct outcome o = { 0 };

	partition_find_bytes(r.p, bytes, on_found, &o);
	assert_int_equal(o.calls, 0);
	rig_turn();
	WAIT(&r.h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	return o.offset;
}

static int trim(uint64_t start)
{
	struct outcome o = { 0 };

	partition_trim(r.p, start, on_done, &o);
	assert_int_equal(o.calls, 0);
	rig_turn();
	WAIT(&r.h, o.calls == 1);
	return o.status;
}

/* Where batches begin, and how many bytes there are from there on. */
struct cut {
	uint64_t base, bytes;
};

static struct cut cuts[1000];
static unsigned cut_count;

/* Batches of some messages each, on several days. */
static void publish_batches(unsigned count)
{
	uint64_t before, base;

	cut_count = 0;
	for (unsigned i = 0; i < count; i++) {
		before = partition_bytes(r.p);
		base = r.stored_count;
		rig_publish_all(1 + pick(5), 50 + pick(500));
		for (unsigned k = 0; k < cut_count; k++)
			cuts[k].bytes += partition_bytes(r.p) - before;
		cuts[cut_count++] = (struct cut){ base, partition_bytes(r.p) - before };
		if (pick(10) == 0)
			r.env.now_ms += 7 * 60 * MINUTE_MS;
	}
}

/* The last cut with which there are so many bytes. In Redis small batches may have become
 * one with those before them. */
static void expect_bytes(uint64_t bytes, bool is_in_memory)
{
	uint64_t found = find_bytes(bytes);
	unsigned i = cut_count - 1;

	while (i > 0 && cuts[i].bytes < bytes)
		i--;
	if (cuts[i].bytes < bytes || cuts[i].base < partition_start(r.p)) {
		assert_int_equal(found, partition_start(r.p));
		return;
	}
	if (is_in_memory)
		assert_int_equal(found, cuts[i].base);
	while (cuts[i].base > found)
		i--;
	assert_true(cuts[i].base == found || found == partition_start(r.p));
	assert_true(cuts[i].bytes - bytes < RECORD_BATCH_BYTES);
}

static void expect_all_bytes(bool is_in_memory)
{
	expect_bytes(0, is_in_memory);
	expect_bytes(1, is_in_memory);
	expect_bytes(UINT64_MAX, is_in_memory);
	for (unsigned i = 0; i < 200; i++)
		expect_bytes(pick((unsigned)(cuts[0].bytes + 1000)), is_in_memory);
	for (unsigned i = 0; i < 50; i++) {
		uint64_t bytes = cuts[pick(cut_count)].bytes;

		expect_bytes(bytes, is_in_memory);
		expect_bytes(bytes + 1, is_in_memory);
	}
}

TEST_THAT(the_last_bytes_begin_with_a_whole_batch_wherever_it_lies)
{
	publish_batches(200);
	expect_all_bytes(true);
	r.env.tail_max_bytes = r.env.tail_bytes / 3;
	partition_shrink(&r.env);
	expect_all_bytes(false);
	r.env.tail_max_bytes = 0;
	partition_shrink(&r.env);
	expect_all_bytes(false);
	assert_int_equal(rig_recover(), TIDE_OK);
	expect_all_bytes(false);
	assert_int_equal(trim(cuts[100].base + 1), TIDE_OK);
	assert_true(partition_bytes(r.p) >= cuts[100].bytes);
	assert_true(partition_bytes(r.p) < cuts[100].bytes + RECORD_BATCH_BYTES);
	expect_all_bytes(false);
}

UNKEPT_TEST(without_keys_the_last_bytes_are_found_in_the_tail)
{
	publish_batches(100);
	expect_all_bytes(true);
	assert_int_equal(trim(cuts[50].base), TIDE_OK);
	expect_all_bytes(true);
}

TEST_THAT(an_empty_partition_has_nothing_to_cut)
{
	assert_int_equal(find_bytes(1), 0);
	assert_int_equal(partition_find_age(r.p, NOON_MS + DAY_MS), 0);
	rig_publish_all(3, 100);
	assert_int_equal(trim(3), TIDE_OK);
	assert_int_equal(find_bytes(1), 3);
	assert_int_equal(partition_find_age(r.p, 0), 3);
}

/* At noon of a day ten messages, in two batches; then of another. */
static void publish_day(unsigned day)
{
	r.env.now_ms = NOON_MS + day * DAY_MS;
	rig_publish_all(5, 100);
	rig_publish_all(5, 100);
}

TEST_THAT(days_are_old_as_a_whole)
{
	const int64_t midnight = NOON_MS + DAY_MS / 2;

	publish_day(0);
	publish_day(1);
	publish_day(4); /* two days without a message */
	assert_int_equal(partition_find_age(r.p, 0), 0);
	assert_int_equal(partition_find_age(r.p, midnight - 1), 0);
	assert_int_equal(partition_find_age(r.p, midnight), 10);
	assert_int_equal(partition_find_age(r.p, midnight + DAY_MS - 1), 10);
	assert_int_equal(partition_find_age(r.p, midnight + DAY_MS), 20);
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_find_age(r.p, midnight), 10);
	assert_int_equal(trim(15), TIDE_OK);
	assert_int_equal(partition_find_age(r.p, midnight), 15);
	assert_int_equal(partition_find_age(r.p, midnight + DAY_MS), 20);
	/* Of the last day the last message is known. */
	assert_int_equal(partition_find_age(r.p, partition_last_ms(r.p)), 20);
	assert_int_equal(partition_find_age(r.p, partition_last_ms(r.p) + 1), 30);
	assert_int_equal(trim(30), TIDE_OK);
	/* The start, and the largest batch. */
	assert_int_equal(ask_int(&r.h, "HLEN " LOG), 2);
}

TEST_THAT(times_that_were_ahead_of_the_clock_count)
{
	publish_day(3);
	r.env.now_ms = NOON_MS; /* the clock was set back */
	rig_publish_all(5, 100);
	assert_int_equal(partition_last_ms(r.p), r.stored[9]->ms);
	assert_int_equal(partition_find_age(r.p, NOON_MS + 2 * DAY_MS), 0);
	assert_int_equal(partition_find_age(r.p, NOON_MS + 5 * DAY_MS), 15);
}

UNKEPT_TEST(without_keys_batches_are_old_as_a_whole)
{
	int64_t first_ms;

	rig_publish_all(5, 100);
	first_ms = partition_last_ms(r.p);
	r.env.now_ms += MINUTE_MS;
	rig_publish_all(5, 100);
	assert_int_equal(partition_find_age(r.p, first_ms), 0);
	assert_int_equal(partition_find_age(r.p, first_ms + 1), 5);
	assert_int_equal(trim(7), TIDE_OK);
	assert_int_equal(partition_find_age(r.p, first_ms + 1), 7);
	assert_int_equal(partition_find_age(r.p, partition_last_ms(r.p) + 1), 10);
}

TEST_THAT(a_refused_trim_is_sent_again_though_the_start_stays)
{
	publish_day(0);
	publish_day(1);
	tell(&r.h, "RENAME " LOG " kept");
	tell(&r.h, "SET " LOG " other");
	r.news = 0;
	assert_int_equal(trim(12), TIDE_ESTORE);
	assert_true(partition_trim_failed(r.p));
	assert_int_equal(partition_start(r.p), 12);
	assert_true(r.news > 0);
	assert_int_equal(trim(12), TIDE_ESTORE);
	tell(&r.h, "DEL " LOG);
	tell(&r.h, "RENAME kept " LOG);
	assert_int_equal(trim(0), TIDE_OK);
	assert_false(partition_trim_failed(r.p));
	assert_int_equal(ask_int(&r.h, "EXISTS " LOG ":20261123"), 0);
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_start(r.p), 12);
	rig_expect_all_from(12);
}

TEST_THAT(a_trim_passes_while_memory_is_out)
{
	publish_day(0);
	publish_day(1);
	tell(&r.h, "CONFIG SET maxmemory 1");
	assert_int_equal(trim(16), TIDE_OK);
	tell(&r.h, "CONFIG SET maxmemory 0");
	assert_int_equal(ask_int(&r.h, "EXISTS " LOG ":20261123"), 0);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261124"), 1);
	rig_expect_all_from(16);
}

TEST_THAT(a_trim_removes_256_batches_at_a_time_until_none_is_left)
{
	redisReply *stats;

	publish_day(0);
	tell(&r.h, "EVAL %s 1 %s",
	     "for i = 1, 1000 do redis.call('ZADD', KEYS[1], i / 1001, i) end",
	     LOG ":20261123");
	tell(&r.h, "CONFIG RESETSTAT");
	assert_int_equal(trim(7), TIDE_OK);
	assert_int_equal(ask_int(&r.h, "ZCARD " LOG ":20261123"), 1);
	stats = ask(&r.h, "INFO commandstats");
	assert_non_null(strstr(stats->str, "cmdstat_eval:calls=4,"));
	freeReplyObject(stats);
	rig_expect_all_from(7);
}

static unsigned growths;

static void on_growth(struct partition *p)
{
	assert_ptr_equal(p, r.p);
	growths++;
}

TEST_THAT(growth_is_told_once_an_append_has_landed)
{
	static const struct partition_ops ops = { rig_on_news, on_growth };

	r.env.ops = &ops;
	growths = 0;
	for (unsigned i = 0; i < 100; i++)
		rig_publish(100);
	assert_int_equal(growths, 0);
	rig_settle();
	assert_int_equal(growths, 1);
}

UNKEPT_TEST(without_keys_growth_is_told_too)
{
	growth_is_told_once_an_append_has_landed(state);
}

RUN_TESTS(.setup = rig_setup, .teardown = rig_teardown)
