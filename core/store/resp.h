/* resp.h: Redis commands as bytes (RESP2), appended to a buf.
 *
 * A command is resp_array with the number of its words, then the words. */
#pragma once

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/decimal.h"
#include "base/id.h"

/* Room for "*<n>\r\n" with any 32-bit n. */
#define RESP_ARRAY_MAX 13
/* "$16\r\n", the id, "\r\n". */
#define RESP_ID_LEN (5 + ID_HEX_LEN + 2)
/* "$<len>\r\n" */
#define RESP_BULK_HEAD_MAX (1 + DECIMAL_MAX + 2)
#define RESP_SCORE_TEXT_MAX 32
#define RESP_SCORE_MAX (RESP_BULK_HEAD_MAX + RESP_SCORE_TEXT_MAX + 2)

void resp_array(struct buf *out, size_t words);
/* A whole command, in the format of redisCommand: %b is data and size_t. */
void resp_command(struct buf *out, const char *format, va_list args);
/* The line "*<words>\r\n" written so that it ends right before `end`, which
 * has RESP_ARRAY_MAX bytes in front of it; its first byte is returned. */
char *resp_array_before(char *end, uint32_t words);
void resp_bulk(struct buf *out, struct slice word);
void resp_text(struct buf *out, const char *word);
void resp_number(struct buf *out, uint64_t n);
/* As resp_put_score. */
void resp_score(struct buf *out, double score);
/* One word of two parts. */
void resp_pair(struct buf *out, struct slice a, struct slice b);

/* The same for those who have room already: an entry of a batch is several words.
 * They give the place behind what they wrote. */
static inline char *resp_put_end(char *to)
{
	memcpy(to, "\r\n", 2);
	return to + 2;
}

static inline char *resp_put_id(char *to, uint64_t id)
{
	memcpy(to, "$16\r\n", 5);
	id_format(id, to + 5);
	return resp_put_end(to + 5 + ID_HEX_LEN);
}

static inline char *resp_put_bulk_head(char *to, size_t len)
{
	*to = '$';
	return resp_put_end(decimal_put(to + 1, len));
}

/* The shortest of the integer and the %.17g form: what Redis reads back is
 * the same double. NaN, which no sorted set can hold, counts as 0. */
char *resp_put_score(char *to, double score);

/* A reply with all that is in it, in one piece of memory, which mem_free frees. */
redisReply *resp_copy(const redisReply *reply);

/* The value of "name:value" in what INFO told, as a number; empty, and 0, when it is not
 * there. */
struct slice resp_info_value(struct slice info, const char *name);
uint64_t resp_info_number(struct slice info, const char *name);

/* The memory of one reply of Redis.
 *
 * hiredis allocates each element of a reply, and its text, by itself: seven
 * allocations for a message that is read. Here they lie one behind the other
 * and are forgotten together. */
struct resp_block;

struct resp_arena {
	struct resp_block *blocks; /* the one that is being filled first */
};

void resp_arena_init(struct resp_arena *a);
void resp_arena_deinit(struct resp_arena *a);
/* A reader whose replies lie in `a`, which outlives it.
 * They are not to be freed: see resp_arena_reset. */
redisReader *resp_arena_reader(struct resp_arena *a);
/* Forget the reply; not while the reader is in the middle of the next one. */
void resp_arena_reset(struct resp_arena *a);
