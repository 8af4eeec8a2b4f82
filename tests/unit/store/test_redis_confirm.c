#include "check.h"

#include <string.h>

#include "base/mem.h"
#include "store/redis_confirm.h"
#include "store/resp.h"

static struct redis_confirm_level level = { .is = { .replicas = 2 }, .is_begun = true };
static struct redis_request write_a = { .is_write = true, .replies = 1 };
static struct redis_request read_b = { .replies = 2 };
static struct redis_request write_c = { .is_write = true, .replies = 1 };

static int setup(void **state)
{
	static struct redis_confirm f;

	level.is.is_synced = false;
	write_a.was_lost = read_b.was_lost = write_c.was_lost = false;
	redis_confirm_init(&f, &level);
	*state = &f;
	return 0;
}

#define CONFIRM_TEST(name) TEST_OF(struct redis_confirm *f, name)

static bool hold(struct redis_confirm *f, struct redis_request *r, unsigned answered)
{
	redisReply reply = { .type = REDIS_REPLY_INTEGER, .integer = answered };

	r->answered = answered;
	return redis_confirm_hold(f, r, &reply);
}

static bool say(struct redis_confirm *f, int type, long long replicas)
{
	redisReply reply = { .type = type, .integer = replicas };

	return redis_confirm_reply(f, &reply);
}

static bool say_synced(struct redis_confirm *f, long long here, long long replicas)
{
	redisReply numbers[] = { { .type = REDIS_REPLY_INTEGER, .integer = here },
				 { .type = REDIS_REPLY_INTEGER, .integer = replicas } };
	redisReply *elements[] = { &numbers[0], &numbers[1] };
	redisReply reply = { .type = REDIS_REPLY_ARRAY,
			     .elements = 2,
			     .element = elements };

	return redis_confirm_reply(f, &reply);
}

static void expect_next(struct redis_confirm *f, const char *text)
{
	struct redis_request *r = redis_confirm_next(f);

	assert_non_null(r);
	assert_int_equal(r->parts[0].len, strlen(text));
	assert_memory_equal(r->parts[0].base, text, strlen(text));
	assert_null(redis_confirm_next(f));
}

static void expect_taken(struct redis_confirm *f, struct redis_request *r)
{
	redisReply *reply = NULL;

	assert_ptr_equal(redis_confirm_take(f, &reply), r);
	assert_int_equal(reply->integer, r->answered);
	mem_free(reply);
}

static void expect_none(struct redis_confirm *f)
{
	redisReply *reply;

	assert_null(redis_confirm_take(f, &reply));
}

CONFIRM_TEST(reads_wait_behind_writes_and_keep_their_order)
{
	assert_false(hold(f, &read_b, 2));
	assert_true(hold(f, &write_a, 1));
	assert_false(hold(f, &read_b, 1)); /* more of its answers follow */
	assert_true(hold(f, &read_b, 2));
	assert_true(hold(f, &write_c, 1));
	expect_taken(f, &write_a);
	expect_taken(f, &read_b);
	expect_taken(f, &write_c);
	expect_none(f);
	assert_false(hold(f, &read_b, 2));
}

CONFIRM_TEST(too_few_replicas_are_asked_again_at_once)
{
	redis_confirm_note(f);
	expect_next(f, "WAIT 2 1000\r\n");
	assert_true(hold(f, &write_a, 1));
	assert_false(say(f, REDIS_REPLY_INTEGER, 1));
	assert_true(f->is_due);
	expect_next(f, "WAIT 2 1000\r\n");
	assert_true(say(f, REDIS_REPLY_INTEGER, 3));
	assert_false(f->is_due);
	expect_taken(f, &write_a);
}

CONFIRM_TEST(an_error_confirms_nothing_and_is_asked_again_with_the_beat)
{
	redis_confirm_note(f);
	expect_next(f, "WAIT 2 1000\r\n");
	assert_true(hold(f, &write_a, 1));
	assert_false(say(f, REDIS_REPLY_ERROR, 0));
	assert_false(f->is_due);
	redis_confirm_look(f);
	expect_next(f, "WAIT 2 1000\r\n");
	assert_true(say(f, REDIS_REPLY_INTEGER, 2));
	expect_taken(f, &write_a);
}

CONFIRM_TEST(a_look_does_not_keep_reads_waiting_long)
{
	assert_null(redis_confirm_next(f));
	redis_confirm_look(f);
	expect_next(f, "WAIT 2 200\r\n");
	assert_false(say(f, REDIS_REPLY_INTEGER, 0));
	assert_false(f->is_due);
}

CONFIRM_TEST(synced_counts_the_disks_of_replicas_and_the_own_one)
{
	level.is.is_synced = true;
	redis_confirm_note(f);
	expect_next(f, "WAIT 2 500\r\nWAITAOF 1 2 500\r\n");
	assert_false(say_synced(f, 1, 1));
	assert_false(say_synced(f, 0, 2));
	assert_false(say(f, REDIS_REPLY_INTEGER, 2));
	assert_true(say_synced(f, 1, 2));
}

CONFIRM_TEST(a_lost_connection_gives_back_what_was_held_in_order)
{
	struct redis_requests list;
	struct redis_request unanswered = { .replies = 1 }, *wait;

	TAILQ_INIT(&list);
	redis_confirm_note(f);
	wait = redis_confirm_next(f);
	TAILQ_INSERT_TAIL(&list, wait, entry);
	TAILQ_INSERT_TAIL(&list, &unanswered, entry);
	assert_true(hold(f, &write_a, 1));
	assert_true(hold(f, &read_b, 2));
	redis_confirm_lose(f, &list);
	assert_true(write_a.was_lost && read_b.was_lost);
	assert_ptr_equal(TAILQ_FIRST(&list), &write_a);
	assert_ptr_equal(TAILQ_NEXT(&write_a, entry), &read_b);
	assert_ptr_equal(TAILQ_NEXT(&read_b, entry), &unanswered);
	assert_null(TAILQ_NEXT(&unanswered, entry));
	expect_none(f);
	redis_confirm_note(f);
	expect_next(f, "WAIT 2 1000\r\n");
}

TEST_THAT(nothing_is_asked_for_at_level_master)
{
	static const struct redis_confirm_level master;
	struct redis_confirm f;

	redis_confirm_init(&f, &master);
	redis_confirm_note(&f);
	redis_confirm_look(&f);
	assert_null(redis_confirm_next(&f));
}

TEST_THAT(a_copy_has_all_of_a_reply)
{
	struct resp_arena arena;
	redisReader *reader;
	const char text[] = "*3\r\n$5\r\nhello\r\n*2\r\n:7\r\n$-1\r\n$0\r\n\r\n";
	void *parsed = NULL;
	redisReply *copy;

	resp_arena_init(&arena);
	reader = resp_arena_reader(&arena);
	redisReaderFeed(reader, text, sizeof(text) - 1);
	assert_int_equal(redisReaderGetReply(reader, &parsed), REDIS_OK);
	copy = resp_copy(parsed);
	redisReaderFree(reader);
	resp_arena_deinit(&arena);
	assert_int_equal(copy->elements, 3);
	assert_string_equal(copy->element[0]->str, "hello");
	assert_int_equal(copy->element[1]->element[0]->integer, 7);
	assert_int_equal(copy->element[1]->element[1]->type, REDIS_REPLY_NIL);
	assert_string_equal(copy->element[2]->str, "");
	mem_free(copy);
}

TEST_THAT(levels_are_read)
{
	static const char *const wrong[] = {
		"",           "masters",     "master=1",   "replicas", "replicas=",
		"replicas=0", "replicas=1x", "synced=101", "Synced=1"
	};
	struct store_confirm parsed;
	struct error err;

	assert_int_equal(store_confirm_parse("master", &parsed, &err), TIDE_OK);
	assert_int_equal(parsed.replicas, 0);
	assert_int_equal(store_confirm_parse("replicas=2", &parsed, &err), TIDE_OK);
	assert_true(parsed.replicas == 2 && !parsed.is_synced);
	assert_int_equal(store_confirm_parse("synced=100", &parsed, &err), TIDE_OK);
	assert_true(parsed.replicas == 100 && parsed.is_synced);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(store_confirm_parse(wrong[i], &parsed, &err),
				 TIDE_ESYNTAX);
}

RUN_TESTS(.setup = setup)
