/* record.h: record batches: how messages lie in a partition of a topic.
 *
 * A batch is what one group commit appended to one partition, cut where it is long: the
 * member of a sorted set in Redis, scored by the offset of its first record. In memory it
 * is the same bytes, counted by references; who reads, reads from them, and no message
 * object is made.
 *
 *   byte     version, 1
 *   8 bytes  XXH3 (64 bits, low byte first) of all that follows
 *   varint   offset of the first record that was appended in it
 *   varint   span: how many offsets it covers
 *   varint   count: how many records it has; less than span once it was compacted
 *   varint   position: bytes of the partition's batches that were appended before it
 *   varint   time of the first record, ms since 1970
 *   records
 *
 * and a record:
 *
 *   varint   length of the rest of the record
 *   byte     flags, which say which of these follow:
 *   varint   GAP: offsets left out before it
 *   varint   ID: its id minus that of the record before it (of the first: minus 0),
 * zigzag; without the flag the id is the next one varint   TIME: ms after the record
 * before it text     EXCHANGE: of the publish; without the flag that of the record before
 * it text     KEY: likewise byte     PRIORITY headers  HEADERS: their number, then a text
 * for each name and value bytes    the payload: the rest
 *
 * A varint is LEB128: 7 bits a byte, the lowest first. A text is a varint, its length,
 * and its bytes. Times of a partition never go back. */
#pragma once

#include "base/buf.h"
#include "base/msg.h"

#define RECORD_VERSION 1
/* A batch is cut before it gets longer, unless one record alone is. Below a size class of
 * Redis's allocator, so that little of what it takes is wasted. */
#define RECORD_BATCH_BYTES (64 * 1024 - 64)

struct record_batch {
	uint32_t refs;
	uint32_t count;
	uint64_t base; /* offset of the first record */
	uint64_t end;  /* the offset behind the last */
	uint64_t position;
	int64_t first_ms;
	int64_t last_ms;   /* of its last record; 0: not known yet, it was opened */
	uint32_t head_len; /* where the records begin */
	size_t len;
	char bytes[];
};

static inline struct record_batch *record_batch_ref(struct record_batch *b)
{
	b->refs++;
	return b;
}
/* Accepts NULL. */
void record_batch_unref(struct record_batch *b);

/* One record, as a view: the message and all that it points to lie in the batch and in
 * the reader. Its refs are 0: who keeps it makes a copy (msg_create). Its ts is the time
 * of its append. */
struct record {
	uint64_t offset;
	struct msg msg;
};

/* A batch that grows. Zeroed before its first use; usable again after each finish. */
struct record_writer {
	struct buf bytes;    /* the records */
	uint64_t base, next; /* the offset that the next record has unless it says more */
	uint64_t position;
	uint32_t count;
	uint64_t last_id;
	int64_t first_ms, last_ms;
	/* Of the last record, in `bytes`. */
	size_t exchange_at, exchange_len, key_at, key_len;
};

void record_writer_deinit(struct record_writer *w);
/* Begin a batch. */
void record_begin(struct record_writer *w, uint64_t base, uint64_t position);
/* Append a message. `offset`: at least w->next; more leaves a gap. `ms`: its time; no
 * earlier than that of the one before. */
void record_add(struct record_writer *w, uint64_t offset, const struct msg *m,
		int64_t ms);
/* What it is at most with this message, in bytes. */
size_t record_bytes_with(const struct record_writer *w, const struct msg *m);
/* The batch, with one reference; it covers the offsets up to `end`, which is w->next or
 * more. The writer is empty. */
struct record_batch *record_finish(struct record_writer *w, uint64_t end);

/* A batch out of Redis: the bytes are copied, and checked. Nothing about them is trusted.
 * TIDE_ESTORE: they are no batch, and `err` says where they are wrong. */
TIDE_MUST_USE int record_open(struct slice bytes, struct record_batch **out,
			      struct error *err);

/* Reads a batch from its front. It borrows the batch. */
struct record_reader {
	const struct record_batch *batch; /* NULL: none */
	const char *at;
	uint64_t next; /* the offset that the next record has unless it says more */
	uint32_t left; /* records */
	uint64_t last_id;
	int64_t last_ms;
	struct slice exchange, key;
	struct msg_header headers[MSG_HEADERS_ALL];
};

void record_read(struct record_reader *r, const struct record_batch *batch);
/* The next record; false: that was the last. The view is good until the next call. */
bool record_next(struct record_reader *r, struct record *out);
/* Leave out those below the offset, without making views of them. */
void record_skip(struct record_reader *r, uint64_t offset);
