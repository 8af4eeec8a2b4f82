/* publish_ids.h: the publish ids that a queue or a topic has seen, each for a time. A
 * second publish with the same id is not stored.
 *
 * They are in memory, and in Redis in a set of each part: of a shard, or of a partition.
 * What memory has forgotten leaves Redis later, in pieces. Who stores the messages writes
 * the ids with them: dedupe.h, broker/topic_ids.h.
 *
 * The ids of all queues and topics share one limit of memory. At the limit a publish with
 * a new id is refused: forgetting an old one would break a promise. */
#pragma once

#include "base/heap.h"
#include "dedupe_table.h"
#include "shard.h"

struct json;
struct publish_ids;

TAILQ_HEAD(publish_ids_list, publish_ids);

/* What all of a broker share. */
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

/* The window of a queue that remembers an id for as long as it has the message. */
#define PUBLISH_IDS_QUEUED_MS INT64_C(999999999999999)

void publish_ids_init(struct publish_ids *ids, struct publish_ids_env *env,
		      const struct publish_ids_ops *ops);
/* The owner has no use for them any more, and its parts are gone: they are forgotten. */
void publish_ids_drop(struct publish_ids *ids);
/* Read what Redis has of a part. The waiter is told when that is done. Not for those with
 * is_queued. */
void publish_ids_recover(struct publish_ids *ids, unsigned part, struct waiter *waiter);
/* Nothing is remembered, and nothing is left to be done in Redis. */
bool publish_ids_is_unused(const struct publish_ids *ids);

/* NULL when it has not been seen, or long ago. */
struct dedupe_record *publish_ids_find(const struct publish_ids *ids,
				       const struct dedupe_key *key);
/* One that was not found. With is_queued the window does not count. */
struct dedupe_record *publish_ids_add(struct publish_ids *ids,
				      const struct dedupe_key *key, uint64_t msg_id,
				      unsigned part, int64_t window_ms);
void publish_ids_forget(struct publish_ids *ids, struct dedupe_record *r);
/* What Redis has of it; it points into the record. */
struct store_seen publish_ids_seen(const struct publish_ids *ids,
				   const struct dedupe_record *r);
/* A row of Redis. */
struct dedupe_record *publish_ids_add_row(struct publish_ids *ids, unsigned part,
					  const struct store_seen *row);

/* Room in memory for the id, or 0 when it has been seen. */
size_t publish_ids_wanted(const struct publish_ids *ids, const struct dedupe_key *key);
/* Is there room for so much? TIDE_EFULL */
TIDE_MUST_USE int publish_ids_admit(const struct publish_ids_env *env, size_t bytes,
				    struct error *err);
/* It has been seen, and it is not known yet whether that one will be stored. */
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
