#include "resp.h"

#include <math.h>
#include <stdalign.h>
#include <stdio.h>

#include "base/mem.h"

/* Doubles hold each integer up to 2^53. */
#define EXACT_INTEGER_MAX 9007199254740992.0

void resp_array(struct buf *out, size_t words)
{
	buf_append_char(out, '*');
	buf_append_uint(out, words);
	buf_append(out, "\r\n", 2);
}

void resp_command(struct buf *out, const char *format, va_list args)
{
	char *bytes;
	int len = redisvFormatCommand(&bytes, format, args);

	if (len < 0)
		mem_fail(strlen(format));
	buf_append(out, bytes, (size_t)len);
	redisFreeCommand(bytes);
}

char *resp_array_before(char *end, uint32_t words)
{
	char *start = end - decimal_len(words) - 3;

	*start = '*';
	resp_put_end(decimal_put(start + 1, words));
	return start;
}

void resp_pair(struct buf *out, struct slice a, struct slice b)
{
	char *to = buf_reserve(out, RESP_BULK_HEAD_MAX);

	buf_grow(out, (size_t)(resp_put_bulk_head(to, a.len + b.len) - to));
	buf_append_slice(out, a);
	buf_append_slice(out, b);
	buf_append(out, "\r\n", 2);
}

void resp_bulk(struct buf *out, struct slice word)
{
	resp_pair(out, word, SLICE(""));
}

void resp_text(struct buf *out, const char *word)
{
	resp_bulk(out, slice_from(word));
}

void resp_number(struct buf *out, uint64_t n)
{
	char text[DECIMAL_MAX];

	resp_bulk(out, (struct slice){ text, (size_t)(decimal_put(text, n) - text) });
}

void resp_score(struct buf *out, double score)
{
	char *to = buf_reserve(out, RESP_SCORE_MAX);

	buf_grow(out, (size_t)(resp_put_score(to, score) - to));
}

char *resp_put_score(char *to, double score)
{
	char text[RESP_SCORE_TEXT_MAX];
	size_t len;

	if (isnan(score))
		score = 0;
	/* Not snprintf: it is most of what a score costs. */
	if (score >= -EXACT_INTEGER_MAX && score <= EXACT_INTEGER_MAX &&
	    score == (double)(int64_t)score)
		len = (size_t)(decimal_put_int(text, (int64_t)score) - text);
	else
		len = (size_t)snprintf(text, sizeof(text), "%.17g", score);
	to = resp_put_bulk_head(to, len);
	memcpy(to, text, len);
	return resp_put_end(to + len);
}

struct slice resp_info_value(struct slice info, const char *name)
{
	while (info.len > 0) {
		struct slice line = slice_cut(&info, '\n');

		if (slice_is(slice_cut(&line, ':'), name))
			return slice_cut(&line, '\r');
	}
	return SLICE("");
}

uint64_t resp_info_number(struct slice info, const char *name)
{
	uint64_t n;

	return slice_to_uint(resp_info_value(info, name), INT64_MAX, &n) ? n : 0;
}

static size_t aligned(size_t size)
{
	return (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

static size_t size_of_copy(const redisReply *reply)
{
	size_t size = aligned(sizeof(*reply)) + aligned(reply->len + 1) +
		      aligned(reply->elements * sizeof(redisReply *));

	for (size_t i = 0; i < reply->elements; i++)
		size += size_of_copy(reply->element[i]);
	return size;
}

/* No deeper than hiredis's reader goes. */
static redisReply *put_copy(char **at, const redisReply *reply)
{
	redisReply *copy = (redisReply *)(void *)*at;

	*copy = *reply;
	*at += aligned(sizeof(*copy));
	if (reply->str) {
		copy->str = *at;
		memcpy(copy->str, reply->str, reply->len);
		copy->str[reply->len] = '\0';
		*at += aligned(reply->len + 1);
	}
	if (reply->elements > 0) {
		copy->element = (redisReply **)(void *)*at;
		*at += aligned(reply->elements * sizeof(redisReply *));
	}
	for (size_t i = 0; i < reply->elements; i++)
		copy->element[i] = put_copy(at, reply->element[i]);
	return copy;
}

redisReply *resp_copy(const redisReply *reply)
{
	char *at = mem_alloc(size_of_copy(reply));

	return put_copy(&at, reply);
}

#define BLOCK_BYTES (64 * 1024)

struct resp_block {
	struct resp_block *next;
	size_t used;
	size_t size;
	alignas(max_align_t) char data[];
};

void resp_arena_init(struct resp_arena *a)
{
	*a = (struct resp_arena){ 0 };
}

void resp_arena_deinit(struct resp_arena *a)
{
	struct resp_block *b;

	while ((b = a->blocks) != NULL) {
		a->blocks = b->next;
		mem_free(b);
	}
}

/* One block stays, for the next reply. */
void resp_arena_reset(struct resp_arena *a)
{
	struct resp_block *b;

	while ((b = a->blocks) != NULL && (b->next || b->size > BLOCK_BYTES)) {
		a->blocks = b->next;
		mem_free(b);
	}
	if (b)
		b->used = 0;
}

static struct resp_block *add_block(struct resp_arena *a, size_t size)
{
	struct resp_block *b;

	if (size < BLOCK_BYTES)
		size = BLOCK_BYTES;
	b = size > SIZE_MAX - sizeof(*b) ? NULL : mem_try_alloc(sizeof(*b) + size);
	if (!b)
		return NULL;
	*b = (struct resp_block){ .next = a->blocks, .size = size };
	a->blocks = b;
	return b;
}

/* Redis says how long things are, so the failure is the reader's to report. */
static void *allocate(struct resp_arena *a, size_t size)
{
	struct resp_block *b = a->blocks;
	void *result;

	if (size > SIZE_MAX - alignof(max_align_t))
		return NULL;
	size = aligned(size);
	if (!b || b->size - b->used < size) {
		b = add_block(a, size);
		if (!b)
			return NULL;
	}
	result = b->data + b->used;
	b->used += size;
	return result;
}

static redisReply *create(const redisReadTask *task, size_t extra)
{
	redisReply *reply = extra > SIZE_MAX - sizeof(*reply)
				    ? NULL
				    : allocate(task->privdata, sizeof(*reply) + extra);

	if (!reply)
		return NULL;
	memset(reply, 0, sizeof(*reply));
	reply->type = task->type;
	if (task->parent) {
		redisReply *parent = task->parent->obj;

		parent->element[task->idx] = reply;
	}
	return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
	redisReply *reply = len == SIZE_MAX ? NULL : create(task, len + 1);

	if (!reply)
		return NULL;
	reply->str = (char *)(reply + 1);
	reply->len = len;
	memcpy(reply->str, text, len);
	reply->str[len] = '\0';
	return reply;
}

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static void *create_array(const redisReadTask *task, element_count count)
{
	size_t elements = (size_t)count; /* the reader takes no negative one */
	redisReply *reply = elements > SIZE_MAX / sizeof(redisReply *)
				    ? NULL
				    : create(task, elements * sizeof(redisReply *));

	if (!reply)
		return NULL;
	reply->element = (redisReply **)(reply + 1);
	reply->elements = elements;
	return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
	redisReply *reply = create(task, 0);

	if (reply)
		reply->integer = value;
	return reply;
}

static void *create_nil(const redisReadTask *task)
{
	redisReply *reply = create(task, 0);

	if (reply)
		reply->type = REDIS_REPLY_NIL; /* the task's is the type it stands for */
	return reply;
}

/* The reader drops half a reply by this when it fails. */
static void forget(void *reply)
{
	(void)reply;
}

redisReader *resp_arena_reader(struct resp_arena *a)
{
	static redisReplyObjectFunctions functions = {
		.createString = create_string,
		.createArray = create_array,
		.createInteger = create_integer,
		.createNil = create_nil,
		.freeObject = forget,
	};
	redisReader *reader = redisReaderCreateWithFunctions(&functions);

	if (!reader)
		mem_fail(sizeof(*reader));
	redisReaderSetPrivdata(reader, a);
	return reader;
}
