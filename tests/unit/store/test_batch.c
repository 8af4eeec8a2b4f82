#include "check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/batch.h"
#include "codec_encode.h"
#include "store/resp.h"

#define PREFIX "tide:{//q#0}:"

static struct batch *begin(void)
{
	struct batch *b = batch_create();
	batch_reset(b, SLICE(PREFIX));
	return b;
}

/* The bytes that would be sent, each command on a line, words in blanks. */
static void render(struct batch *b, struct buf *out)
{
	batch_seal(b);
	struct buf all = { 0 };
	for (unsigned i = 0; i < b->request.part_count; i++)
		buf_append(&all, b->request.parts[i].base, b->request.parts[i].len);
	char *at = (char *)buf_cstr(&all);
	char *end = at + buf_len(&all);
	while (at < end) {
		assert_int_equal(*at, '*');
		unsigned long words = strtoul(at + 1, &at, 10);
		while (words-- > 0) {
			assert_memory_equal(at, "\r\n$", 3);
			size_t len = strtoul(at + 3, &at, 10);
			assert_memory_equal(at, "\r\n", 2);
			buf_append(out, at + 2, len);
			buf_append_char(out, words ? ' ' : '\n');
			at += 2 + len;
		}
		assert_memory_equal(at, "\r\n", 2);
		at += 2;
	}
	buf_deinit(&all);
}

static void assert_commands(struct batch *b, const char *want, unsigned replies)
{
	struct buf out = { 0 };
	render(b, &out);
	assert_string_equal(buf_cstr(&out), want);
	assert_int_equal(b->request.replies, replies);
	buf_deinit(&out);
	batch_destroy(b);
}

#define ID(n) "000000000000000" #n

TEST_THAT(nothing_needs_no_reply)
{
	assert_commands(begin(), "", 0);
}

TEST_THAT(single_write_goes_without_a_transaction)
{
	struct batch *b = begin();
	batch_tries(b, 1, &(struct store_tries){ 3, 2, "timeout", { 0 } });
	batch_tries(b, 2, &(struct store_tries){ 1, 0, NULL, { 0 } });
	assert_commands(b, "HSET " PREFIX "tries " ID(1) " 3 2 timeout " ID(2) " 1 0 \n",
			1);
}

TEST_THAT(removals_stand_before_and_outside_of_the_transaction)
{
	struct batch *b = begin();
	batch_move(b, 1, STORE_READY, STORE_UNACK, 1790000000000.0);
	batch_remove(b, 2, STORE_UNACK, true, true);
	batch_move(b, 3, STORE_DELAYED, STORE_READY, -0.5);
	batch_remove(b, 4, STORE_READY, false, false);
	batch_move(b, 5, STORE_READY, STORE_READY, 1);
	assert_commands(
		b,
		"HDEL " PREFIX "tries " ID(
			2) "\n"
			   "ZREM " PREFIX "expiry " ID(
				   2) "\n"
				      "HDEL " PREFIX "msg " ID(2) " " ID(
					      4) "\n"
						 "ZREM " PREFIX "ready " ID(
							 4) "\n"
							    "ZREM " PREFIX "unack " ID(
								    2) "\n"
								       "MULTI\n"
								       "ZADD " PREFIX
								       "ready -0.5 " ID(3) " 1 " ID(
									       5) "\n"
										  "ZADD"
										  " " PREFIX
										  "unack "
										  "179000"
										  "000000"
										  "0 " ID(1) "\n"
											     "ZREM " PREFIX
											     "ready " ID(
												     1) "\n"
													"ZREM " PREFIX
													"delayed " ID(
														3) "\n"
														   "EXEC\n",
		5 + 6);
}

TEST_THAT(insert_writes_body_place_and_expiry)
{
	struct msg spec = { .id = 7, .expires_unix_ms = 1790000000009, .payload = "" };
	struct msg *m = msg_create(&spec);
	struct batch *b = begin();
	struct buf want = { 0 };
	buf_append_text(&want, "MULTI\nHSET " PREFIX "msg " ID(7) " ");
	codec_encode(&want, m, 2);
	buf_append_text(&want, "\nZADD " PREFIX "expiry 1790000000009 " ID(
				       7) "\n"
					  "ZADD " PREFIX "delayed 17 " ID(7) "\nEXEC\n");
	batch_insert(
		b, &(struct store_insert){ m, 2, m->expires_unix_ms, STORE_DELAYED, 17 });
	struct buf out = { 0 };
	render(b, &out);
	assert_true(slice_is_equal(buf_slice(&out), buf_slice(&want)));
	assert_int_equal(b->request.replies, 5);
	buf_deinit(&out);
	buf_deinit(&want);
	batch_destroy(b);
	msg_unref(m);
}

TEST_THAT(reset_forgets_what_was_in_it)
{
	struct batch *b = begin();
	batch_remove(b, 2, STORE_UNACK, true, true);
	batch_seal(b);
	batch_reset(b, SLICE("tide:{//other#1}:"));
	batch_move(b, 1, STORE_BURIED, STORE_BURIED, 5);
	assert_commands(b, "ZADD tide:{//other#1}:buried 5 " ID(1) "\n", 1);
}

TEST_THAT(long_commands_are_cut)
{
	struct batch *b = begin();
	for (uint64_t id = 1; id <= 2 * BATCH_ENTRIES_MAX + 1; id++)
		batch_remove(b, id, STORE_READY, false, false);
	batch_seal(b);
	assert_int_equal(b->request.replies, 6);
	assert_memory_equal(b->request.parts[0].base, "*100002\r\n$4\r\nHDEL", 17);
	assert_memory_equal(b->request.parts[2].base, "*3\r\n$4\r\nHDEL", 12);
	assert_memory_equal(b->request.parts[5].base, "*3\r\n$4\r\nZREM", 12);
	batch_destroy(b);
}

TEST_THAT(pieces_stay_within_the_limit_of_a_request)
{
	assert_true(BATCH_COMMANDS_MAX + 2 <= REDIS_REQUEST_PARTS_MAX);
}

/* ---- replies -------------------------------------------------------------------- */

static void tell(struct batch *b, int type, const char *text)
{
	redisReply reply = { .type = type, .str = (char *)(uintptr_t)text };
	b->request.answered++;
	batch_reply(b, &reply);
}

static struct batch *sealed(void)
{
	struct batch *b = begin();
	batch_remove(b, 1, STORE_READY, false, false);
	batch_move(b, 2, STORE_READY, STORE_BURIED, 5);
	batch_seal(b);
	assert_int_equal(b->request.replies, 2 + 4);
	return b;
}

TEST_THAT(first_error_is_the_reason_and_the_kinds_are_told_apart)
{
	struct batch *b = sealed();
	tell(b, REDIS_REPLY_INTEGER, NULL);
	tell(b, REDIS_REPLY_INTEGER, NULL);
	tell(b, REDIS_REPLY_STATUS, "OK");
	tell(b, REDIS_REPLY_ERROR, "OOM no");
	tell(b, REDIS_REPLY_STATUS, "QUEUED");
	tell(b, REDIS_REPLY_ERROR, "EXECABORT because");
	const struct batch_result *result = &b->result;
	assert_int_equal(result->removed, TIDE_OK);
	assert_int_equal(result->written, TIDE_ESTORE);
	assert_string_equal(result->text, "OOM no");
	/* Sent again after a reconnect: what was said before does not count. */
	b->request.answered = 0;
	tell(b, REDIS_REPLY_ERROR, "READONLY");
	assert_int_equal(b->result.removed, TIDE_ESTORE);
	assert_int_equal(b->result.written, TIDE_OK);
	assert_string_equal(b->result.text, "READONLY");
	batch_destroy(b);
}

TEST_THAT(errors_inside_of_exec_count)
{
	redisReply good = { .type = REDIS_REPLY_INTEGER };
	redisReply bad = { .type = REDIS_REPLY_ERROR, .str = (char[]){ "WRONGTYPE" } };
	redisReply *elements[] = { &good, &bad };
	redisReply exec = { .type = REDIS_REPLY_ARRAY,
			    .elements = 2,
			    .element = elements };
	struct batch *b = sealed();
	for (int i = 0; i < 5; i++)
		tell(b, REDIS_REPLY_STATUS, "OK");
	b->request.answered++;
	batch_reply(b, &exec);
	assert_int_equal(b->result.removed, TIDE_OK);
	assert_int_equal(b->result.written, TIDE_ESTORE);
	assert_string_equal(b->result.text, "WRONGTYPE");
	batch_destroy(b);
}

TEST_THAT(transaction_that_gives_nil_is_refused)
{
	struct batch *b = sealed();
	for (int i = 0; i < 5; i++)
		tell(b, REDIS_REPLY_STATUS, "OK");
	tell(b, REDIS_REPLY_NIL, NULL);
	assert_int_equal(b->result.written, TIDE_ESTORE);
	batch_destroy(b);
}

/* ---- numbers -------------------------------------------------------------------- */

TEST_THAT(scores_are_exact)
{
	static const struct {
		double score;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ -0.0, "0" },
		{ 1, "1" },
		{ -17, "-17" },
		{ 0.5, "0.5" },
		{ 0.1, "0.10000000000000001" },
		{ 1e300, "1.0000000000000001e+300" },
		{ 1790000000000.0, "1790000000000" },
		{ 9007199254740992.0, "9007199254740992" },
		{ INFINITY, "inf" },
		{ -INFINITY, "-inf" },
		{ NAN, "0" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[RESP_SCORE_MAX], want[64];
		char *end = resp_put_score(text, cases[i].score);
		int len = snprintf(want, sizeof(want), "$%zu\r\n%s\r\n",
				   strlen(cases[i].text), cases[i].text);

		assert_int_equal(end - text, len);
		assert_memory_equal(text, want, len);
	}
}

RUN_TESTS()
