/* publish_ids.h: the publish ids that a queue or a topic has seen, each for a time. A
 * second publish with the same id is not stored.
 *
 * They are in memory, and in Redis in a set of each part: of a shard, or of a partition.
 * What memory has forgotten leaves Redis later, in pieces. Who stores the messages writes
 * the ids with them: dedupe.h, broker/topic.h.
 *
 * The ids of all queues and topics share one limit of memory. At the limit a publish with
 * a new id is refused: forgetting an old one would break a promise. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

#include "base/heap.h"
#include "base/id_table.h"
#include "base/slice.h"
#include "shard.h"

/* The publish ids that a queue or a topic has seen, by id and by age; and
 * by message, if they are to be forgotten with it.
 *
 * Age is the order of adding, nearly that of the times of forgetting. */
struct dedupe_record {
	struct growing_item item;            /* by its id; the first member */
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
	struct growing records;         /* by id */
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
/* A new record, the youngest; the key must not be there, unless it `is_leaving`. All but
 * what is given is zero. */
struct dedupe_record *dedupe_table_add(struct dedupe_table *t,
				       const struct dedupe_key *key, uint64_t msg_id,
				       bool is_leaving);
/* DEDUPE_TABLE_MESSAGES: the record of that one, also one that leaves; or NULL. */
struct dedupe_record *dedupe_table_of_message(const struct dedupe_table *t,
					      uint64_t msg_id);
/* Free the record's key: the record is found by its message alone. */
void dedupe_table_leave(struct dedupe_table *t, struct dedupe_record *r);
/* Take it out and free it. */
void dedupe_table_remove(struct dedupe_table *t, struct dedupe_record *r);

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

struct json;
struct publish_ids;

TAILQ_HEAD(publish_ids_list, publish_ids);

/* The environment that all ids of a broker share. */
struct publish_ids_env {
	struct shard_env *env;           /* its clock, and its store */
	struct heap due;                 /* by when something is to be forgotten */
	struct publish_ids_list dropped; /* freed bit by bit */
	size_t bytes;                    /* of all records */
	size_t max_bytes;
};

struct publish_ids_ops {
	/* The keys of a part; NULL: it is not there, or Redis has nothing of it. */
	struct store_shard *(*keys)(const struct publish_ids *ids, unsigned part);
	/* All is forgotten after publish_ids_drop, and nothing is under way. */
	void (*free)(struct publish_ids *ids);
	/* With is_queued: Redis has a newer message with this id. The record leaves. */
	void (*on_older)(struct publish_ids *ids, struct dedupe_record *r);
};

#define PUBLISH_IDS_PARTS_MAX 64

struct publish_ids {
	struct publish_ids_env *env;
	const struct publish_ids_ops *ops;
	struct dedupe_table table; /* a record's shard is its part */
	/* An id is remembered for as long as its message is there. */
	bool is_queued;
	bool is_dropped;
	unsigned refs;  /* of the owner, and of each request under way */
	uint64_t stale; /* parts of which Redis has what memory has forgotten */
	uint64_t trimming;
	struct heap_node due;
	TAILQ_ENTRY(publish_ids) dropped_link;
};

/* The waiters for a publish that is not settled: a list. */
struct publish_ids_wait;
/* The waiter, if any, is counted up. */
void publish_ids_wait_for(struct publish_ids_wait **waits, struct waiter *waiter);
void publish_ids_tell(struct publish_ids_wait *waits, int status, const char *text);

/* The window of a queue that remembers an id for as long as it has the message. */
#define PUBLISH_IDS_QUEUED_MS INT64_C(999999999999999)

void publish_ids_init(struct publish_ids *ids, struct publish_ids_env *env,
		      const struct publish_ids_ops *ops, enum dedupe_table_kind kind);
/* The owner has no use for them any more, and its parts are gone: they are forgotten. */
void publish_ids_drop(struct publish_ids *ids);
/* Read what Redis has of a part. The waiter is told when that is done. */
void publish_ids_recover(struct publish_ids *ids, unsigned part, struct waiter *waiter);
/* Is no id remembered, and no work left in Redis? */
bool publish_ids_is_unused(const struct publish_ids *ids);

/* NULL when it has not been seen, or long ago. */
struct dedupe_record *publish_ids_find(const struct publish_ids *ids,
				       const struct dedupe_key *key);
/* One that was not found. With is_queued the window does not count. */
struct dedupe_record *publish_ids_add(struct publish_ids *ids,
				      const struct dedupe_key *key, uint64_t msg_id,
				      unsigned part, int64_t window_ms);
void publish_ids_forget(struct publish_ids *ids, struct dedupe_record *r);
/* The state of the record in Redis; it points into the record. */
struct store_seen publish_ids_seen(const struct publish_ids *ids,
				   const struct dedupe_record *r);
/* Redis forgets the records, all of one part, and so does memory. */
void publish_ids_remove(struct publish_ids *ids, unsigned part,
			struct dedupe_record **records, size_t count);

/* Room in memory for the id, or 0 when it has been seen. */
size_t publish_ids_wanted(const struct publish_ids *ids, const struct dedupe_key *key);
/* Is there room for so much? TIDE_EFULL */
TIDE_MUST_USE int publish_ids_admit(const struct publish_ids_env *env, size_t bytes,
				    struct error *err);
/* Has the id been seen, and is it not known yet whether that publish will be stored? */
bool publish_ids_is_pending(const struct publish_ids *ids, const struct dedupe_key *key);
/* Members of an EXPLAIN's queue object. @param window_ms  0 = nothing is remembered */
void publish_ids_explain(const struct publish_ids *ids, const struct dedupe_key *key,
			 int64_t window_ms, struct json *j);
size_t publish_ids_count(const struct publish_ids *ids);

/* Forget what is due, at most `*budget` of it, which is counted down. */
void publish_ids_turn(struct publish_ids_env *env, unsigned *budget);
/* When there is something to forget; 0 = there is nothing. */
int64_t publish_ids_due_ms(const struct publish_ids_env *env);
/* Of those that were dropped, likewise. */
void publish_ids_free_dropped(struct publish_ids_env *env, unsigned *budget);
