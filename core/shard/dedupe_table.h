/* dedupe_table.h: the publish ids that a queue or a topic has seen, by id and by age; and
 * by message, if they are to be forgotten with it.
 *
 * A hash table that grows and shrinks a bucket at a time (linear hashing): doubling
 * uthash's table of millions of records would stop the loop for longer than a turn may
 * take. Age is the order of adding, nearly that of the times of forgetting. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

#include "base/id_table.h"
#include "base/slice.h"

struct dedupe_record {
	struct dedupe_record *chain;         /* the next of its bucket */
	TAILQ_ENTRY(dedupe_record) age_link; /* by age, or among those that leave */
	void *pending;                       /* NULL: it is settled */
	uint64_t msg_id;                     /* the message that the publish became */
	int64_t until_unix_ms;               /* when it may be forgotten */
	uint32_t hash;
	uint16_t copy; /* 0: the message; n: the n-th copy that filters made */
	uint8_t shard; /* or partition */
	uint8_t len;
	bool is_leaving; /* the publish id is free; Redis may have it still */
	char publish_id[];
};

TAILQ_HEAD(dedupe_record_list, dedupe_record);

enum dedupe_table_kind {
	DEDUPE_TABLE_PLAIN,
	DEDUPE_TABLE_MESSAGES, /* records are found by their messages, too */
	DEDUPE_TABLE_OFFSETS,  /* each record has the offset of its message */
};

struct dedupe_table {
	struct dedupe_record ***segments; /* of buckets; NULL while it is empty */
	size_t segment_cap;
	size_t buckets;
	size_t count;
	struct dedupe_record_list ages; /* the oldest first */
	enum dedupe_table_kind kind;
	struct id_table messages; /* DEDUPE_TABLE_MESSAGES: the records */
	struct dedupe_record_list leaving;
};

struct dedupe_key {
	struct slice publish_id; /* 1 to MSG_DEDUPE_ID_MAX bytes */
	unsigned copy;
};

void dedupe_table_init(struct dedupe_table *t, enum dedupe_table_kind kind);

/* NULL when it is not there. */
struct dedupe_record *dedupe_table_find(const struct dedupe_table *t,
					const struct dedupe_key *key);
/* A new record, the youngest; the key must not be there. All but what is given is zero.
 */
struct dedupe_record *dedupe_table_add(struct dedupe_table *t,
				       const struct dedupe_key *key, uint64_t msg_id);
/* DEDUPE_TABLE_MESSAGES: the record of that one, also one that leaves; or NULL. */
struct dedupe_record *dedupe_table_of_message(const struct dedupe_table *t,
					      uint64_t msg_id);
/* Its key is free: it is found by its message alone. */
void dedupe_table_leave(struct dedupe_table *t, struct dedupe_record *r);
/* Take it out and free it. */
void dedupe_table_remove(struct dedupe_table *t, struct dedupe_record *r);

/* What a record with an id of that length costs, its part of the table included. */
size_t dedupe_table_record_bytes(const struct dedupe_table *t, size_t len);

static inline struct dedupe_record *dedupe_table_oldest(const struct dedupe_table *t)
{
	return TAILQ_FIRST(&t->ages);
}

static inline struct slice dedupe_record_id(const struct dedupe_record *r)
{
	return (struct slice){ r->publish_id, r->len };
}

/* DEDUPE_TABLE_OFFSETS: it stands behind the publish id. */
static inline uint64_t dedupe_record_offset(const struct dedupe_record *r)
{
	uint64_t offset;

	memcpy(&offset, r->publish_id + r->len, sizeof(offset));
	return offset;
}

static inline void dedupe_record_set_offset(struct dedupe_record *r, uint64_t offset)
{
	memcpy(r->publish_id + r->len, &offset, sizeof(offset));
}
