/* The last message of each key stays, and no reader sees anything else change. */
#include "partition_rig.h"

#include "log/compact.h"

#define LOG "tide:{//orders#3}:log"
#define DAY LOG ":20261123"
#define KEYS 40 /* a number that is no key */
#define MESSAGES_MAX 40000

/* What was published, by offset. */
static struct sent {
	uint32_t key; /* KEYS: none */
	uint32_t len;
	int64_t ms;
} sent[MESSAGES_MAX];
static uint64_t sent_count;

static int setup(void **state)
{
	rig_init(true);
	compact_enable(r.p);
	sent_count = 0;
	return 0;
}

static struct slice key_text(char *text, uint32_t key)
{
	return (struct slice){ text,
			       key == KEYS ? 0 : (size_t)sprintf(text, "k%u", key) };
}

static void publish(uint32_t key, uint32_t len)
{
	static char payload[8192];
	char text[16];
	struct msg m = { .id = 7000 + sent_count,
			 .exchange = SLICE("orders"),
			 .key = key_text(text, key),
			 .payload = payload,
			 .payload_len = len };

	memset(payload, (int)('a' + sent_count % 26), len);
	assert_int_equal(partition_append(r.p, &m, NULL), sent_count);
	sent[sent_count++] = (struct sent){ key, len, r.env.now_ms };
}

static void empty_tail(void)
{
	r.env.tail_max_bytes = 0;
	partition_shrink(&r.env);
	r.env.tail_max_bytes = (size_t)64 << 20;
}

static void turn(void)
{
	r.env.now_ms += 20;
	partition_flush(&r.env);
	uv_timer_start(&r.h.waker, harness_wake, 1, 1);
	uv_run(&r.h.loop, UV_RUN_ONCE);
}

static bool is_quiet(void)
{
	return partition_is_idle(&r.env) && !r.env.pass && r.env.merge_flights == 0 &&
	       TAILQ_EMPTY(&r.env.merges) && TAILQ_EMPTY(&r.env.compactions);
}

/* Until merges and passes have ended. */
static void settle(void)
{
	uint64_t late = patience_end_ns();

	while (!is_quiet() && uv_hrtime() < late)
		turn();
	assert_true(is_quiet());
}

static void publish_some(unsigned count, unsigned keys, uint32_t len)
{
	for (unsigned i = 0; i < count; i++) {
		publish(pick(keys), len);
		if (pick(20) == 0)
			rig_settle();
	}
	rig_settle();
}

/* The last of its key before the offset. */
static bool is_last(uint64_t offset, uint64_t end)
{
	for (uint64_t i = offset + 1; i < end; i++)
		if (sent[i].key == sent[offset].key)
			return false;
	return true;
}

static void check_sent(const struct record *record)
{
	const struct sent *s = &sent[record->offset];
	char text[16];

	assert_true(slice_is_equal(record->msg.key, key_text(text, s->key)));
	assert_int_equal(record->msg.id, 7000 + record->offset);
	assert_int_equal(record->msg.ts_unix_ms, s->ms);
	assert_int_equal(record->msg.payload_len, s->len);
	for (uint32_t i = 0; i < s->len; i += 97)
		assert_int_equal(record->msg.payload[i], 'a' + record->offset % 26);
}

/* A reader of Redis from the offset on: below `end` only last ones, from it on all. */
static unsigned expect_compacted(uint64_t from, uint64_t end)
{
	struct cursor *c;
	struct record record;
	uint64_t at = from;
	unsigned count = 0;

	empty_tail();
	c = cursor_create(r.p, from);
	for (; rig_next(c, &record) == TIDE_OK; at = record.offset + 1, count++) {
		check_sent(&record);
		for (; at < record.offset; at++)
			assert_true(at < end && !is_last(at, end));
		if (at < end && sent[at].key != KEYS)
			assert_true(is_last(at, end));
	}
	assert_int_equal(cursor_offset(c), sent_count);
	cursor_destroy(c);
	return count;
}

TEST_THAT(the_last_of_each_key_stays)
{
	publish_some(4000, KEYS, 400);
	settle();
	assert_true(compact_end(r.p) > 2000);
	expect_compacted(0, compact_end(r.p));
	expect_compacted(1234, compact_end(r.p));
	assert_true(partition_bytes(r.p) < 4000 * 400 / 2);
	assert_true(r.env.stats.compacted > 2000);
	assert_int_equal(partition_start(r.p), 0);
	assert_int_equal(partition_end(r.p), 4000);
}

TEST_THAT(messages_without_a_key_stay)
{
	for (unsigned i = 0; i < 3000; i++) {
		publish(i % 3 ? KEYS : pick(3), 500);
		if (i % 30 == 0)
			rig_settle();
	}
	settle();
	assert_true(compact_end(r.p) > 1500);
	assert_true(expect_compacted(0, compact_end(r.p)) >= 2000);
}

/* Passes follow each other; each covers what came since the last one. */
TEST_THAT(passes_go_on_where_the_last_one_ended)
{
	uint64_t end = 0;
	char command[96];

	for (unsigned i = 0; i < 6; i++) {
		publish_some(2500, KEYS, 600);
		settle();
		assert_true(compact_end(r.p) > end);
		end = compact_end(r.p);
		expect_compacted(pick((unsigned)end), end);
		snprintf(command, sizeof(command), "ZCOUNT " DAY " 0 %llu",
			 (unsigned long long)end - 1);
		assert_in_range(ask_int(&r.h, command), 1, 3);
	}
}

TEST_THAT(little_is_left_alone)
{
	publish_some(1000, KEYS, 500);
	settle();
	assert_int_equal(compact_end(r.p), 0);
	assert_int_equal(r.env.stats.compacted, 0);
}

TEST_THAT(days_are_compacted_and_may_become_empty)
{
	for (unsigned day = 0; day < 4; day++) {
		publish_some(1500, 8, 700);
		r.env.now_ms += DAY_MS;
	}
	publish_some(10, 8, 700);
	settle();
	expect_compacted(0, compact_end(r.p));
	expect_compacted(2000, compact_end(r.p));
	assert_int_equal(ask_int(&r.h, "EXISTS " DAY), 0);
	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_end(r.p), sent_count);
}

TEST_THAT(a_tombstone_goes_a_day_later)
{
	const uint32_t key = 5;
	uint64_t at;

	for (unsigned i = 0; i < 1000; i++)
		publish(key, 600);
	rig_settle();
	at = sent_count;
	publish(key, 0);
	rig_settle();
	for (unsigned i = 0; i < 2000; i++) {
		publish(pick(5), 600);
		if (i % 50 == 0)
			rig_settle();
	}
	settle();
	assert_true(compact_end(r.p) > at);
	expect_compacted(0, compact_end(r.p));
	assert_true(is_last(at, sent_count));
	r.env.now_ms = sent[at].ms + DAY_MS - 2 * MINUTE_MS;
	assert_int_equal(ask_int(&r.h, "ZCOUNT " DAY " 0 1000"), 1);
	for (unsigned i = 0; i < 2; i++) {
		struct cursor *c = cursor_create(r.p, 0);
		struct record record;

		publish_some(6000, 5, 600);
		settle();
		empty_tail();
		assert_int_equal(rig_next(c, &record), TIDE_OK);
		if (i == 0)
			assert_int_equal(record.offset, at);
		else
			assert_true(record.offset > at);
		assert_int_not_equal(sent[record.offset].key, i == 0 ? 0xffff : key);
		cursor_destroy(c);
		r.env.now_ms += 3 * MINUTE_MS;
	}
}

/* The passes come in pieces: each goes on where the keys of the last one were too many.
 */
TEST_THAT(more_keys_than_there_is_room_for_take_more_passes)
{
	uint64_t end = 0;
	unsigned passes = 0;

	r.env.compact_key_bytes = (size_t)32 << 10;
	r.env.compact_retry_ms = r.env.now_ms + MINUTE_MS / 4;
	for (unsigned i = 0; i < 5000; i++) {
		publish(1000 + pick(4000), 300);
		if (i % 30 == 0)
			rig_settle();
	}
	rig_settle();
	r.env.compact_retry_ms = 0;
	while (!is_quiet()) {
		turn();
		passes += compact_end(r.p) > end;
		end = compact_end(r.p);
	}
	assert_true(passes >= 4 && passes < 20);
	assert_true(end > 4500);
	expect_compacted(0, end);
}

TEST_THAT(a_restart_begins_from_the_start)
{
	publish_some(4000, KEYS, 400);
	settle();
	expect_compacted(0, compact_end(r.p));
	partition_close(r.p);
	rig_new_partition();
	compact_enable(r.p);
	memset(&recovery, 0, sizeof(recovery));
	waiter_init(&recovery.waiter, rig_on_recovered);
	partition_recover(r.p, rig_on_group, &recovery.waiter);
	waiter_done(&recovery.waiter, TIDE_OK, NULL);
	WAIT(&r.h, recovery.is_done);
	assert_int_equal(partition_end(r.p), 4000);
	publish_some(3000, KEYS, 400);
	settle();
	assert_true(compact_end(r.p) > 4000);
	expect_compacted(0, compact_end(r.p));
}

TEST_THAT(a_reader_in_between_misses_nothing)
{
	struct cursor *c;
	struct record record;
	uint64_t at = 0;

	publish_some(5000, KEYS, 400);
	empty_tail();
	c = cursor_create(r.p, 0);
	while (!is_quiet()) {
		struct record_batch *batch;

		turn();
		for (unsigned i = pick(300); i > 0; i--) {
			if (cursor_next(c, &record, &batch) != TIDE_OK)
				break;
			check_sent(&record);
			for (; at < record.offset; at++)
				assert_false(is_last(at, sent_count));
			at++;
		}
	}
	while (rig_next(c, &record) == TIDE_OK) {
		check_sent(&record);
		for (; at < record.offset; at++)
			assert_false(is_last(at, sent_count));
		at++;
	}
	assert_int_equal(at, sent_count);
	cursor_destroy(c);
}

/* Trims and closes come at any moment. */
TEST_THAT(what_is_trimmed_does_not_come_back)
{
	for (unsigned round = 0; round < 8; round++) {
		uint64_t start;

		publish_some(2500, KEYS, 500);
		for (unsigned i = pick(40); i > 0; i--)
			turn();
		start = partition_start(r.p) +
			pick((unsigned)(sent_count - partition_start(r.p)));
		partition_trim(r.p, start, NULL, NULL);
		settle();
		empty_tail();
		assert_int_equal(partition_start(r.p), start);
		expect_compacted(start, compact_end(r.p));
	}
}

/* It does not keep the others waiting. */
TEST_THAT(what_was_purged_before_its_pass_is_left_alone)
{
	r.env.compact_retry_ms = r.env.now_ms + MINUTE_MS / 2;
	publish_some(4000, KEYS, 400);
	assert_false(TAILQ_EMPTY(&r.env.compactions));
	partition_trim(r.p, sent_count, NULL, NULL);
	WAIT(&r.h, partition_bytes(r.p) == 0);
	r.env.now_ms += MINUTE_MS;
	turn();
	assert_null(r.env.pass);
	assert_true(TAILQ_EMPTY(&r.env.compactions));
	assert_int_equal(compact_due_ms(&r.env), 0);
}

TEST_THAT(what_redis_refuses_is_tried_again)
{
	r.env.compact_retry_ms = r.env.now_ms + MINUTE_MS / 2;
	publish_some(4000, KEYS, 400);
	assert_false(TAILQ_EMPTY(&r.env.compactions));
	tell(&r.h, "CONFIG SET maxmemory 1");
	r.env.compact_retry_ms = 0;
	turn();
	assert_non_null(r.env.pass);
	for (unsigned i = 0; i < 1000 && r.env.pass; i++)
		turn();
	tell(&r.h, "CONFIG SET maxmemory 0");
	assert_null(r.env.pass);
	assert_int_equal(compact_end(r.p), 0);
	expect_compacted(0, 0);
	assert_true(compact_due_ms(&r.env) > r.env.now_ms);
	r.env.now_ms += MINUTE_MS;
	settle();
	assert_true(compact_end(r.p) > 2000);
	expect_compacted(0, compact_end(r.p));
}

TEST_THAT(a_batch_that_cannot_be_read_stays)
{
	uint64_t read = 0, at = 0;
	struct cursor *c;
	struct record record;

	r.env.compact_retry_ms = r.env.now_ms + MINUTE_MS / 2;
	for (unsigned i = 0; i < 60; i++) {
		for (unsigned n = 0; n < 50; n++)
			publish(pick(KEYS), 500);
		rig_settle();
	}
	empty_tail();
	tell(&r.h, "EVAL %s 1 " DAY,
	     "redis.call('ZREMRANGEBYSCORE', KEYS[1], 500, 500)\n"
	     "redis.call('ZADD', KEYS[1], 500, 'no batch')\n");
	r.env.compact_retry_ms = 0;
	settle();
	assert_true(compact_end(r.p) > 1000);
	assert_int_equal(ask_int(&r.h, "ZCOUNT " DAY " 500 500"), 1);
	c = cursor_create(r.p, 0);
	for (; rig_next(c, &record) == TIDE_OK; at = record.offset + 1, read++) {
		check_sent(&record);
		for (; at < record.offset; at++)
			assert_true((at >= 500 && at < 550) ||
				    !is_last(at, compact_end(r.p)));
	}
	assert_true(read < 1500);
	cursor_destroy(c);
}

TEST_THAT(a_partition_may_close_in_a_pass)
{
	for (unsigned turns = 0; turns < 30; turns++) {
		publish_some(turns ? 100 : 4000, KEYS, 400);
		for (unsigned i = 0; i < turns; i++)
			turn();
		assert_int_equal(rig_recover(), TIDE_OK);
		compact_enable(r.p);
		compact_note(r.p);
	}
	settle();
	expect_compacted(0, compact_end(r.p));
}

RUN_TESTS(.setup = setup, .teardown = rig_teardown)
