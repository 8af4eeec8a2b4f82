/* batch.h: what a shard changed in a turn, as the bytes of Redis commands.
 *
 * One variadic command for each kind of change, grown in a buffer of its own
 * whose front has room for the command's number of words. The removals are
 * sent first and outside of a transaction, the writes behind them in one
 * MULTI ... EXEC (a single command goes alone). Redis refuses whatever stands
 * in a MULTI while its memory is out, removals too, though they would free
 * some; that is why those have none. They are ordered so that one that is cut
 * short by a crash leaves at worst a member without a body. */
#pragma once

#include "base/buf.h"
#include "layout.h"
#include "redis_request.h"

/* In the order in which they are sent. */
enum batch_kind {
	BATCH_SIZE_BEFORE,
	BATCH_REMOVE_TRIES,
	BATCH_REMOVE_EXPIRY,
	BATCH_REMOVE_MSG,
	BATCH_REMOVE_FROM, /* + enum store_set */
	BATCH_REMOVE_DEDUPE = BATCH_REMOVE_FROM + STORE_SET_COUNT,
	BATCH_WRITES,
	BATCH_WRITE_MSG = BATCH_WRITES,
	BATCH_WRITE_TRIES,
	BATCH_WRITE_EXPIRY,
	BATCH_WRITE_DEDUPE,
	BATCH_SIZE_AFTER,
	BATCH_ADD_TO,                                 /* + enum store_set */
	BATCH_LEAVE = BATCH_ADD_TO + STORE_SET_COUNT, /* + enum store_set */
	BATCH_KIND_COUNT = BATCH_LEAVE + STORE_SET_COUNT,
};

/* One command has no more entries than this: Redis 6 closes the connection on
 * a command of more than 1,048,576 words. */
#define BATCH_ENTRIES_MAX 100000
#define BATCH_COMMANDS_MAX 128

struct batch_command {
	enum batch_kind kind;
	size_t offset; /* in the kind's buffer */
	size_t len;
};

struct batch_section {
	struct buf bytes;
	size_t offset;    /* where the open command's room for its head begins */
	uint32_t entries; /* of the open command; 0: none is open */
};

struct batch {
	struct store *store;
	struct batch *next_free;
	struct slice prefix; /* of the shard's keys; borrowed until batch_seal */
	struct batch_section sections[BATCH_KIND_COUNT];
	struct batch_command commands[BATCH_COMMANDS_MAX]; /* those that are closed */
	unsigned command_count;
	size_t bytes; /* of the entries so far */
	/* From the commit on. */
	struct redis_request request;
	uv_buf_t parts[BATCH_COMMANDS_MAX + BATCH_KIND_COUNT + 2];
	unsigned removal_replies;
	bool has_exec;
	bool has_size; /* the first command writes it: see batch_size */
	struct batch_result result;
	char text[256];
	batch_done_fn on_done;
	void *ctx;
};

struct batch *batch_create(void);
void batch_destroy(struct batch *b);
/* Ready for the shard with that prefix of keys, whatever was in it before. */
void batch_reset(struct batch *b, struct slice prefix);
/* Fill in request.parts, part_count and replies; 0 replies: nothing to send. */
void batch_seal(struct batch *b);
/* Append the commands, removals first, for a transaction of several batches; returns how
 * many there are. */
unsigned batch_append(struct batch *b, struct buf *out);
/* Note what a reply to the sealed request means. */
void batch_reply(struct batch *b, const redisReply *reply);
