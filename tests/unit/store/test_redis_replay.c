#include "check.h"

#include <stdio.h>

#include "base/mem.h"
#include "store/redis_replay.h"

static int setup(void **state)
{
	static struct redis_replay p;

	redis_replay_init(&p);
	*state = &p;
	return 0;
}

static int teardown(void **state)
{
	redis_replay_deinit(*state);
	return 0;
}

#define REPLAY_TEST(name) TEST_OF(struct redis_replay *p, name)

static void say_info(struct redis_replay *p, const char *text)
{
	redis_replay_info(p, slice_from(text));
}

/* What a master at `offset` tells of its replicas, which are at `a` and `b`. */
static void say_offsets(struct redis_replay *p, unsigned offset, unsigned a, unsigned b)
{
	char text[400];

	snprintf(text, sizeof(text),
		 "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n"
		 "slave0:ip=127.0.0.1,port=1,state=online,offset=%u,lag=0\r\n"
		 "slave1:ip=127.0.0.1,port=2,state=online,offset=%u,lag=1\r\n"
		 "master_failover_state:no-failover\r\nmaster_repl_offset:%u\r\n"
		 "second_repl_offset:-1\r\n",
		 a, b, offset);
	say_info(p, text);
}

static void add(struct redis_replay *p, uint64_t number, const char *text)
{
	uv_buf_t parts[2] = { uv_buf_init((char *)(uintptr_t)text, 1),
			      uv_buf_init((char *)(uintptr_t)text + 1,
					  (unsigned)strlen(text) - 1) };
	struct redis_request r = { .parts = parts,
				   .part_count = 2,
				   .replies = 3,
				   .slot = (unsigned)text[0],
				   .is_write = true };

	redis_replay_add(p, &r, number);
}

static void refuse(struct redis_replay *p, uint64_t number)
{
	uv_buf_t part = uv_buf_init((char *)(uintptr_t) "x", 1);
	struct redis_request r = {
		.parts = &part, .part_count = 1, .replies = 1, .is_refused = true
	};

	redis_replay_add(p, &r, number);
}

/* Writes 1 to 5, of "a1" to "e5": slots 'a' to 'e'. */
static void write_five(struct redis_replay *p)
{
	static const char *const texts[] = { "a1", "b2", "c3", "d4", "e5" };

	say_offsets(p, 100, 100, 100);
	for (unsigned i = 0; i < COUNT(texts); i++)
		add(p, i + 1, texts[i]);
}

/* It is freed with its last answer. */
static void answer(struct redis_request *r)
{
	redisReply ok = { .type = REDIS_REPLY_INTEGER };
	unsigned replies = r->replies;

	for (unsigned i = 1; i <= replies; i++) {
		r->answered = i;
		r->on_reply(r, &ok);
	}
}

/* What is sent again to one that has the writes up to `number`. */
static void expect_taken(struct redis_replay *p, uint64_t number, const char *texts)
{
	struct redis_requests out = TAILQ_HEAD_INITIALIZER(out);
	struct redis_request *r;
	struct buf got = { 0 };
	unsigned count = redis_replay_take(p, number, &out);

	while ((r = TAILQ_FIRST(&out)) != NULL) {
		TAILQ_REMOVE(&out, r, entry);
		count--;
		assert_int_equal(r->part_count, 1);
		assert_int_equal(r->replies, 3);
		assert_int_equal(r->slot, r->parts[0].base[0]);
		assert_true(r->is_write);
		buf_append(&got, r->parts[0].base, r->parts[0].len);
		answer(r);
	}
	assert_buf(&got, texts);
	assert_int_equal(count, 0);
	buf_deinit(&got);
}

REPLAY_TEST(without_replicas_nothing_is_kept_and_what_is_written_is_missing)
{
	say_info(p, "role:master\r\nconnected_slaves:0\r\nmaster_repl_offset:5\r\n");
	add(p, 1, "a1");
	assert_int_equal(p->bytes, 0);
	assert_false(redis_replay_reaches(p, 0));
	assert_true(redis_replay_reaches(p, 1));
	say_offsets(p, 10, 10, 10);
	add(p, 2, "b2");
	assert_int_equal(p->bytes, 2);
	assert_false(redis_replay_reaches(p, 0));
	assert_true(redis_replay_has_above(p, 1));
	expect_taken(p, 1, "b2");
}

REPLAY_TEST(what_a_replica_has_not_is_taken_in_order)
{
	write_five(p);
	assert_true(redis_replay_reaches(p, 0));
	assert_false(redis_replay_has_above(p, 5));
	expect_taken(p, 5, "");
	assert_true(redis_replay_has_above(p, 2));
	expect_taken(p, 2, "c3d4e5");
	assert_false(redis_replay_has_above(p, 2));
}

/* The replicas of the new master may lack what it has. */
REPLAY_TEST(what_was_not_taken_stays_for_the_next_failover)
{
	write_five(p);
	redis_replay_begin(p);
	expect_taken(p, 3, "d4e5");
	add(p, 4, "d4");
	assert_true(redis_replay_reaches(p, 1));
	expect_taken(p, 1, "b2c3d4");
}

REPLAY_TEST(the_slowest_replica_says_what_is_forgotten)
{
	write_five(p);
	say_offsets(p, 200, 150, 160);
	assert_int_equal(p->lag, 50);
	assert_true(redis_replay_reaches(p, 0));
	add(p, 6, "f6");
	say_offsets(p, 300, 300, 199);
	assert_true(redis_replay_reaches(p, 0));
	/* Up to the mark at 200 all have it. */
	say_offsets(p, 300, 300, 200);
	assert_false(redis_replay_reaches(p, 4));
	assert_true(redis_replay_reaches(p, 5));
	expect_taken(p, 5, "f6");
}

/* It is being given a copy. */
REPLAY_TEST(a_replica_without_an_offset_has_nothing)
{
	write_five(p);
	say_offsets(p, 200, 200, 0);
	say_offsets(p, 300, 300, 0);
	assert_int_equal(p->lag, 300);
	assert_int_equal(p->bytes, 10);
}

REPLAY_TEST(nothing_is_forgotten_when_the_last_replica_is_gone)
{
	write_five(p);
	say_offsets(p, 200, 150, 150);
	say_info(p, "role:master\r\nconnected_slaves:0\r\nmaster_repl_offset:900\r\n");
	assert_int_equal(p->replicas, 0);
	assert_int_equal(p->lag, 0);
	add(p, 6, "f6");
	expect_taken(p, 0, "a1b2c3d4e5f6");
}

/* In an ordered failover the replica that is to be promoted leaves first. */
REPLAY_TEST(what_a_replica_lacks_that_has_left_stays)
{
	static const char one[] =
		"connected_slaves:1\r\n"
		"slave0:ip=127.0.0.1,port=1,state=online,offset=900,lag=0\r\n"
		"master_repl_offset:900\r\n";

	write_five(p);
	say_offsets(p, 200, 150, 150);
	for (unsigned i = 0; i < REPLAY_LOOKS_MAX; i++)
		say_info(p, one);
	assert_int_equal(p->bytes, 10);
	say_info(p, one);
	assert_int_equal(p->bytes, 0);
}

/* A replica that was promoted while its master stood still: the master has not seen its
 * end yet, only that its connection has no peer. */
REPLAY_TEST(a_replica_that_is_counted_and_not_listed_forgets_nothing)
{
	write_five(p);
	say_offsets(p, 200, 150, 150);
	say_info(p, "role:master\r\nconnected_slaves:2\r\nmaster_repl_offset:900\r\n");
	say_info(p, "role:master\r\nconnected_slaves:2\r\n"
		    "slave1:ip=127.0.0.1,port=2,state=online,offset=900,lag=0\r\n"
		    "master_repl_offset:900\r\n");
	assert_int_equal(p->bytes, 10);
	expect_taken(p, 0, "a1b2c3d4e5");
}

REPLAY_TEST(offsets_of_the_former_master_forget_nothing)
{
	write_five(p);
	say_offsets(p, 200, 150, 150);
	redis_replay_begin(p);
	say_offsets(p, 5000, 5000, 4000);
	assert_int_equal(p->bytes, 10);
	say_offsets(p, 5100, 5100, 5000);
	assert_int_equal(p->bytes, 0);
}

REPLAY_TEST(marks_are_limited)
{
	say_offsets(p, 1, 1, 1);
	for (unsigned i = 1; i <= 2 * REPLAY_MARKS_MAX; i++) {
		add(p, i, "w_");
		say_offsets(p, 10 * i, 1, 1);
	}
	assert_int_equal(p->mark_count, REPLAY_MARKS_MAX);
	say_offsets(p, 10000, 10000, 10000);
	assert_int_equal(p->bytes, 2 * REPLAY_MARKS_MAX);
	say_offsets(p, 10000, 10000, 10000);
	assert_int_equal(p->bytes, 0);
}

REPLAY_TEST(a_write_that_was_refused_is_missing)
{
	write_five(p);
	refuse(p, 6);
	add(p, 7, "g7");
	assert_false(redis_replay_reaches(p, 5));
	assert_true(redis_replay_reaches(p, 6));
	expect_taken(p, 6, "g7");
}

/* As when Redis has no memory for the count: it goes before the next that was counted. */
REPLAY_TEST(an_uncounted_write_is_sent_again_to_who_may_lack_it)
{
	write_five(p);
	add(p, 0, "x");
	add(p, 0, "y");
	add(p, 6, "f6");
	assert_true(redis_replay_has_above(p, 5));
	say_offsets(p, 100, 50, 50);
	expect_taken(p, 6, "");
	expect_taken(p, 5, "xyf6");
}

REPLAY_TEST(a_full_log_forgets_the_oldest)
{
	size_t len = REDIS_REPLAY_BYTES_MAX / 2;
	char *text = mem_alloc(len + 1);

	memset(text, 'z', len);
	text[len] = '\0';
	write_five(p);
	add(p, 6, text);
	add(p, 7, text);
	assert_int_equal(p->bytes, 2 * len);
	assert_false(redis_replay_reaches(p, 4));
	assert_true(redis_replay_reaches(p, 5));
	add(p, 8, text);
	assert_int_equal(p->bytes, 2 * len);
	assert_false(redis_replay_reaches(p, 5));
	assert_true(redis_replay_reaches(p, 6));
	mem_free(text);
}

static bool is_vowel(void *ctx, unsigned slot)
{
	assert_string_equal(ctx, "given");
	return slot == 'a' || slot == 'e';
}

REPLAY_TEST(writes_to_slots_that_have_moved_are_forgotten)
{
	write_five(p);
	redis_replay_keep(p, is_vowel, (char *)(uintptr_t) "given");
	assert_int_equal(p->bytes, 4);
	assert_true(redis_replay_reaches(p, 0));
	expect_taken(p, 1, "e5");
	assert_int_equal(p->bytes, 2);
}

REPLAY_TEST(with_another_record_all_is_sent_again)
{
	write_five(p);
	redis_replay_restart(p, 1000);
	assert_true(redis_replay_has_above(p, 1000));
	assert_true(redis_replay_reaches(p, 0));
	add(p, 1001, "f6");
	expect_taken(p, 1000, "a1b2c3d4e5f6");
	assert_false(redis_replay_has_above(p, 0));
}

/* Before the gap nothing is sent: what was written in it is there. */
REPLAY_TEST(with_another_record_what_is_before_a_gap_is_forgotten)
{
	write_five(p);
	refuse(p, 6);
	add(p, 7, "g7");
	redis_replay_restart(p, 2);
	assert_false(redis_replay_reaches(p, 1));
	assert_true(redis_replay_reaches(p, 2));
	expect_taken(p, 2, "g7");
	assert_int_equal(p->bytes, 0);
}

/* The master that is read anew stands at 3, and counts on from there. */
REPLAY_TEST(after_a_gap_numbers_are_those_of_the_master)
{
	write_five(p);
	redis_replay_clear(p);
	redis_replay_restart(p, 3);
	assert_false(redis_replay_has_above(p, 0));
	assert_false(redis_replay_reaches(p, 2));
	add(p, 4, "d4");
	assert_true(redis_replay_reaches(p, 3));
	expect_taken(p, 3, "d4");
}

REPLAY_TEST(a_store_that_ends_frees_what_was_taken)
{
	struct redis_requests out = TAILQ_HEAD_INITIALIZER(out);
	struct redis_request *r;

	write_five(p);
	redis_replay_take(p, 3, &out);
	while ((r = TAILQ_FIRST(&out)) != NULL) {
		TAILQ_REMOVE(&out, r, entry);
		r->on_reply(r, NULL);
	}
}

RUN_TESTS(.setup = setup, .teardown = teardown)
