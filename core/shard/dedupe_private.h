/* dedupe_private.h: what dedupe.c and dedupe_keep.c share. */
#ifndef TIDE_SHARD_DEDUPE_PRIVATE_H
#define TIDE_SHARD_DEDUPE_PRIVATE_H

#include "dedupe.h"
#include "dedupe_shard.h"
#include "dedupe_table.h"

TAILQ_HEAD(dedupe_queue_list, dedupe_queue);

struct dedupe {
	struct shard_env *env;
	struct heap due; /* of queues, by when something is to be forgotten */
	struct dedupe_queue_list dropped; /* of queues that are gone: freed bit by bit */
	struct pool pendings;
	size_t bytes; /* of all records */
	size_t max_bytes;
	uint32_t seed;
};

struct dedupe_queue {
	struct dedupe *dedupe;
	struct queue *queue; /* NULL: it is gone */
	struct dedupe_table table;
	struct heap_node due;
	TAILQ_ENTRY(dedupe_queue) dropped_link;
};

/* Where an id is that is not settled; also the list of its shard that it is in. */
enum dedupe_state {
	DEDUPE_FRESH,  /* its message is to be written, and the id with it */
	DEDUPE_ALONE,  /* its message is gone without having been written */
	DEDUPE_FLYING, /* a batch under way has it */
	DEDUPE_STATE_COUNT,
};

struct dedupe_wait {
	struct waiter *waiter;
	struct dedupe_wait *next;
};

struct dedupe_pending {
	struct waiter entry; /* told by the message's entry */
	struct dedupe_shard *home;
	struct dedupe_record *record; /* NULL: the queue is gone */
	struct dedupe_wait *waits;    /* who wants to know */
	TAILQ_ENTRY(dedupe_pending) link;
	uint8_t state; /* enum dedupe_state */
};

TAILQ_HEAD(dedupe_pending_list, dedupe_pending);

/* Owned by its shard, which a batch under way outlives its queue with. */
struct dedupe_shard {
	struct shard *shard;
	struct dedupe_queue *queue; /* NULL: it is gone */
	struct dedupe_pending_list lists[DEDUPE_STATE_COUNT];
	bool is_stale; /* Redis has what memory has forgotten */
	bool is_trimming;
};

struct dedupe_queue *dedupe_queue_of(struct queue *q);
struct dedupe_shard *dedupe_shard_of(struct shard *sh);
struct dedupe_record *dedupe_remember(struct dedupe_queue *dq,
				      const struct dedupe_key *key, uint64_t msg_id,
				      int64_t until_unix_ms);
void dedupe_forget(struct dedupe_queue *dq, struct dedupe_record *r);
/* Over, and nobody waits for what becomes of it. */
bool dedupe_is_over(const struct dedupe_record *r, int64_t now_ms);
/* It ends as `status` says, and those who wait are told. */
void dedupe_settle(struct dedupe_pending *p, int status, const char *text);

#endif
