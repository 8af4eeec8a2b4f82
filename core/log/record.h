/* record.h: record batches: how messages lie in a partition of a topic.
 *
 * A batch is what one group commit appended to one partition, cut where it is long, or
 * several such that were merged (compact.h). It is the member of a sorted set in Redis,
 * scored by the offset of its first record. In memory it is the same bytes, counted by
 * references. Readers read from the bytes and make no message object.
 *
 * A batch is a head and its records. A varint is LEB128: 7 bits a byte, the lowest first.
 *
 *   | byte    | the version: 1                                               |
 *   | 8 bytes | XXH3, 64 bits, low byte first, of all that follows           |
 *   | varint  | base: the offset of the first record that was appended in it |
 *   | varint  | span: how many offsets it covers                             |
 *   | varint  | count: its records, at least 1; fewer than the span when     |
 *   |         | compaction has removed some                                  |
 *   | varint  | position: bytes of the partition's batches before it         |
 *   | varint  | time of its first record, ms since 1970                      |
 *
 * A record is its length, its flags, the fields whose flags are set, and its payload.
 * A field that is left out is as in the record before. In front of the first record are
 * the offset base - 1, the id 0, the time of the head, an empty exchange and an empty
 * key. A text is a varint, its length, and its bytes.
 *
 *   |  flag | field                                                           |
 *   |       | varint: the length of all that follows                          |
 *   |       | byte: the flags; 0x80 is not used                               |
 *   |  0x01 | varint: offsets left out before it                              |
 *   |  0x02 | zigzag varint: its id minus that of the record before it;       |
 *   |       | without the flag the id is one more                             |
 *   |  0x04 | varint: ms since the record before it                           |
 *   |  0x08 | text: the exchange of the publish; empty is the default         |
 *   |  0x10 | text: the key                                                   |
 *   |  0x20 | byte: the priority; without the flag it is 0                    |
 *   |  0x40 | varint: how many headers, then name and value of each as texts  |
 *   |       | the payload: the rest                                           |
 *
 * Times of a partition never go back. A plain message of the same exchange and key as
 * the one before, in the same ms, takes 2 to 5 bytes besides its payload. */
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "base/msg.h"

#define RECORD_VERSION 1
/* A batch is cut before it gets longer, unless one record alone is. Below a size class of
 * Redis's allocator, so that little of what it takes is wasted. */
#define RECORD_BATCH_BYTES (64 * 1024 - 64)
/* The version and the checksum. */
#define RECORD_HEAD_MIN 9

struct record_batch {
	uint32_t refs;
	uint32_t count;
	uint64_t base; /* offset of the first record that was appended in it */
	uint64_t end;  /* the offset behind the last */
	uint64_t position;
	int64_t first_ms, last_ms; /* of the first and the last record */
	uint32_t head_len;         /* where the records begin */
	size_t len;
	char bytes[];
};

static inline struct record_batch *record_batch_ref(struct record_batch *b)
{
	b->refs++;
	return b;
}
/* Accepts NULL. */
static inline void record_batch_unref(struct record_batch *b)
{
	if (b && --b->refs == 0)
		mem_free(b);
}

/* One record, as a view: the message and all that it points to lie in the batch and in
 * the reader. Its refs and bytes are 0: who keeps it makes a copy (msg_create). Its ts is
 * the time of its append. */
struct record {
	uint64_t offset;
	struct msg msg;
};

/* A batch that grows. Zeroed before its first use; usable again after each finish. It
 * keeps its buffer, up to 256 KiB, until record_writer_deinit. */
struct record_writer {
	struct buf bytes; /* the records */
	uint64_t base;
	uint64_t next; /* the offset of the next record, unless its caller says more */
	uint64_t position;
	uint32_t count;
	uint64_t last_id;
	int64_t first_ms, last_ms;
	/* Of the last record, in `bytes`. */
	size_t exchange_at, exchange_len, key_at, key_len;
};

/* Gives the memory back. The writer is as new. */
void record_writer_deinit(struct record_writer *w);
/* Begin a batch; the writer is empty. */
void record_begin(struct record_writer *w, uint64_t base, uint64_t position);
/* Append a message. Aborts when there is no memory for it.
 *
 * @param offset  at least w->next; more leaves a gap
 * @param ms      its time; no earlier than that of the one before, and not negative */
void record_add(struct record_writer *w, uint64_t offset, const struct msg *m,
		int64_t ms);
/* An upper bound of the length of the batch with this message, in bytes. */
size_t record_bytes_with(const struct record_writer *w, const struct msg *m);
/* The batch, with one reference; it has a record at least. It covers the offsets up to
 * `end`, which is w->next or more. The writer is empty. */
struct record_batch *record_finish(struct record_writer *w, uint64_t end);

/* Read the head of damaged bytes: base, end, count, position, first_ms. The checksum
 * is not looked at. False: not even the head is whole. */
bool record_peek(struct slice bytes, struct record_batch *head);
/* A batch out of Redis: the bytes are copied, and checked. Nothing about them is trusted:
 * head, checksum and each record with its names are looked at here, once, so that all
 * groups that read the batch need no more checks than an assertion.
 *
 * @return  TIDE_OK; TIDE_ESTORE they are no batch, and `err` says where they are wrong;
 *          TIDE_ELIMIT there is no memory for them */
TIDE_MUST_USE int record_open(struct slice bytes, struct record_batch **out,
			      struct error *err);
/* The same for a batch that has to begin at `base`, where it lies: TIDE_ESTORE if it says
 * another offset. */
TIDE_MUST_USE int record_open_at(struct slice bytes, uint64_t base,
				 struct record_batch **out, struct error *err);

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

/* Begin to read. The batch is of record_finish or record_open. */
void record_read(struct record_reader *r, const struct record_batch *batch);
/* The next record; false: that was the last. The view is good until the next call. */
bool record_next(struct record_reader *r, struct record *out);
/* The message has the text of a NACK from now on, with these headers. */
void record_add_reason(struct record *r, struct slice text,
		       struct msg_header headers[MSG_HEADERS_ALL]);
/* Leave out those below the offset, without making views of them. */
void record_skip(struct record_reader *r, uint64_t offset);
