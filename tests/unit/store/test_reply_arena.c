#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "failing_mem.h"
#include "store/resp.h"

struct fixture {
	struct resp_arena arena;
	redisReader *reader;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	resp_arena_init(&f->arena);
	f->reader = resp_arena_reader(&f->arena);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	mem_fail_at = 0;
	redisReaderFree(f->reader);
	resp_arena_deinit(&f->arena);
	free(f);
	return 0;
}

static redisReply *parse(struct fixture *f, const char *bytes, size_t len)
{
	void *reply = NULL;

	assert_int_equal(redisReaderFeed(f->reader, bytes, len), REDIS_OK);
	assert_int_equal(redisReaderGetReply(f->reader, &reply), REDIS_OK);
	return reply;
}

static const char nested[] = "*5\r\n$3\r\nabc\r\n:-42\r\n*2\r\n$-1\r\n*0\r\n+fine\r\n"
			     "-ERR no\r\n";

static void assert_nested(const redisReply *r)
{
	assert_non_null(r);
	assert_int_equal(r->type, REDIS_REPLY_ARRAY);
	assert_int_equal(r->elements, 5);
	assert_int_equal(r->element[0]->type, REDIS_REPLY_STRING);
	assert_int_equal(r->element[0]->len, 3);
	assert_string_equal(r->element[0]->str, "abc");
	assert_int_equal(r->element[1]->type, REDIS_REPLY_INTEGER);
	assert_int_equal(r->element[1]->integer, -42);
	assert_int_equal(r->element[2]->elements, 2);
	assert_int_equal(r->element[2]->element[0]->type, REDIS_REPLY_NIL);
	assert_int_equal(r->element[2]->element[1]->type, REDIS_REPLY_ARRAY);
	assert_int_equal(r->element[2]->element[1]->elements, 0);
	assert_int_equal(r->element[3]->type, REDIS_REPLY_STATUS);
	assert_string_equal(r->element[3]->str, "fine");
	assert_int_equal(r->element[4]->type, REDIS_REPLY_ERROR);
	assert_string_equal(r->element[4]->str, "ERR no");
}

TEST_THAT(a_reply_of_every_type_is_read)
{
	struct fixture *f = *state;

	assert_nested(parse(f, nested, strlen(nested)));
	resp_arena_reset(&f->arena);
	assert_nested(parse(f, nested, strlen(nested)));
}

TEST_THAT(a_reply_may_come_byte_by_byte)
{
	struct fixture *f = *state;
	size_t len = strlen(nested);

	for (size_t i = 0; i + 1 < len; i++)
		assert_null(parse(f, nested + i, 1));
	assert_nested(parse(f, nested + len - 1, 1));
}

/* Bytes of a reply: an array of `count` strings of `len` bytes each. */
static char *strings(size_t count, size_t len, size_t *total)
{
	char *bytes = malloc(32 + count * (len + 32)), *at = bytes;

	at += sprintf(at, "*%zu\r\n", count);
	for (size_t i = 0; i < count; i++) {
		at += sprintf(at, "$%zu\r\n", len);
		memset(at, 'a' + (int)(i % 26), len);
		at += len;
		at += sprintf(at, "\r\n");
	}
	*total = (size_t)(at - bytes);
	return bytes;
}

static void assert_strings(const redisReply *r, size_t count, size_t len)
{
	assert_int_equal(r->elements, count);
	for (size_t i = 0; i < count; i++) {
		const redisReply *e = r->element[i];

		assert_int_equal(e->len, len);
		assert_int_equal(e->str[0], 'a' + (int)(i % 26));
		assert_int_equal(e->str[len - 1], 'a' + (int)(i % 26));
		assert_int_equal(e->str[len], '\0');
	}
}

TEST_THAT(replies_larger_than_a_block_are_whole_and_of_small_ones_a_block_is_kept)
{
	struct fixture *f = *state;
	const struct {
		size_t count, len;
	} cases[] = { { 3, 1 }, { 5000, 150 }, { 2, 1000000 }, { 40, 65536 }, { 1, 10 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t total;
		char *bytes = strings(cases[i].count, cases[i].len, &total);

		assert_strings(parse(f, bytes, total), cases[i].count, cases[i].len);
		resp_arena_reset(&f->arena);
		assert_non_null(f->arena.blocks);
		free(bytes);
	}
}

/* The n-th allocation fails, for each n: an error of the reader, and no more. */
TEST_THAT(a_reply_without_memory_is_an_error_of_the_reader)
{
	struct fixture *f = *state;
	size_t total;
	char *bytes = strings(3, 100000, &total);
	unsigned failures = 0;

	for (unsigned n = 1;; n++) {
		void *reply = NULL;
		int rc;

		teardown(state);
		setup(state);
		f = *state;
		assert_int_equal(redisReaderFeed(f->reader, bytes, total), REDIS_OK);
		mem_fail_at = n;
		rc = redisReaderGetReply(f->reader, &reply);
		if (mem_fail_at > 0) {
			assert_int_equal(rc, REDIS_OK);
			assert_strings(reply, 3, 100000);
			break;
		}
		assert_int_equal(rc, REDIS_ERR);
		failures++;
	}
	assert_in_range(failures, 3, 8);
	free(bytes);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
