#include "reply_arena.h"

#include <stdalign.h>
#include <string.h>

#include "base/mem.h"

#define BLOCK_BYTES (64 * 1024)
/* What an idle connection keeps. */
#define SPARE_MAX 8

struct reply_block {
	struct reply_block *next;
	size_t used;
	size_t size;
	alignas(max_align_t) char data[];
};

void reply_arena_init(struct reply_arena *a)
{
	*a = (struct reply_arena){ 0 };
}

static void free_blocks(struct reply_block *b)
{
	while (b) {
		struct reply_block *next = b->next;

		mem_free(b);
		b = next;
	}
}

void reply_arena_deinit(struct reply_arena *a)
{
	free_blocks(a->used);
	free_blocks(a->spare);
	reply_arena_init(a);
}

void reply_arena_reset(struct reply_arena *a)
{
	struct reply_block *b;

	while ((b = a->used) != NULL) {
		a->used = b->next;
		if (b->size > BLOCK_BYTES || a->spare_count == SPARE_MAX) {
			mem_free(b);
			continue;
		}
		b->used = 0;
		b->next = a->spare;
		a->spare = b;
		a->spare_count++;
	}
}

static struct reply_block *take_block(struct reply_arena *a, size_t size)
{
	struct reply_block *b = a->spare;

	if (b && size <= BLOCK_BYTES) {
		a->spare = b->next;
		a->spare_count--;
	} else {
		if (size < BLOCK_BYTES)
			size = BLOCK_BYTES;
		if (size > SIZE_MAX - sizeof(*b))
			return NULL;
		b = mem_try_alloc(sizeof(*b) + size);
		if (!b)
			return NULL;
		b->size = size;
		b->used = 0;
	}
	b->next = a->used;
	a->used = b;
	return b;
}

/* Redis says how long things are, so the failure is the reader's to report. */
static void *allocate(struct reply_arena *a, size_t size)
{
	struct reply_block *b = a->used;
	void *result;

	if (size > SIZE_MAX - alignof(max_align_t))
		return NULL;
	size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (!b || b->size - b->used < size) {
		b = take_block(a, size);
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

redisReader *reply_arena_reader(struct reply_arena *a)
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
