/* dedupe.h: what a queue has seen: a second publish with the same id is not stored.
 *
 * Each queue decides alone. It keeps the ids of its publishes (PUB id=) in memory for its
 * dedupe window, whatever their shard. The transaction that writes a durable message
 * writes its id too: a crash leaves both or none. The id of a message that is
 * acknowledged before it is written is written alone. The confirm, and the answer to the
 * ack, come when the id is written: from then on kill -9 does not lose it.
 *
 * In a queue with `dedupe=queued` an id is remembered for as long as its message is in
 * the queue, in whatever state, and no longer: shard_remove makes it free at once. The
 * batch that removes the message removes the id behind it: a crash leaves both, or an id
 * whose message is gone, which the next start removes.
 *
 * Until then the id is *pending*. A repeated publish succeeds or fails with the first. A
 * refused write makes the queue forget the id.
 *
 * The ids themselves, their windows and their limit of memory: publish_ids.h. */
#pragma once

#include "publish_ids.h"

struct dedupe;
struct dedupe_queue;

struct dedupe *dedupe_create(struct shard_env *env, size_t max_bytes);
/* Every queue is gone. */
void dedupe_destroy(struct dedupe *d);

/* Begin for the shards of a queue, which remember publish ids together. */
struct dedupe_queue *dedupe_open(struct dedupe *d, bool is_queued);
/* The shards are in this array, some of them not yet. It is good until dedupe_close,
 * or until there is a longer one. */
void dedupe_set_shards(struct dedupe_queue *dq, struct shard **shards, unsigned count);
/* A shard of the array is there. */
void dedupe_join(struct dedupe_queue *dq, struct shard *sh);
/* The queue is about to close its shards: it forgets everything. */
void dedupe_close(struct dedupe_queue *dq_take);
struct publish_ids *dedupe_ids(struct dedupe_queue *dq);
/* The publish id that a message of the queue has; empty unless the queue has is_queued.
 * Copies that filters made have none of their own. */
struct slice dedupe_id_of(const struct dedupe_queue *dq, uint64_t msg_id);
/* The environment that they share with the ids of topics. */
struct publish_ids_env *dedupe_env(struct dedupe *d);

struct dedupe_publish {
	struct dedupe_key key;
	int64_t window_ms; /* how long it is remembered; above 0; or PUBLISH_IDS_QUEUED_MS
			    */
	struct shard *shard;
	struct msg *msg;
	double rank;
};
/* As shard_publish. False: a duplicate of message `*first`; the waiter, if any, is told
 * when that one is durable. */
bool dedupe_publish(struct dedupe_queue *dq, const struct dedupe_publish *p,
		    struct waiter *waiter, uint64_t *first);
/* For a publish that is part of a commit: NULL for a duplicate of `*first`. Else the
 * caller enters the message with this waiter, and then tells the waiter once. */
struct waiter *dedupe_commit(struct dedupe_queue *dq, const struct dedupe_publish *p,
			     uint64_t *first);
/* Forget what is due, as much of it as a turn may. */
void dedupe_turn(struct dedupe *d);
/* When there is something to forget; 0 = there is nothing. */
int64_t dedupe_due_ms(const struct dedupe *d);
size_t dedupe_bytes(const struct dedupe *d);

/* For shard.c: the entry, which has OWED_ID, is done with. The waiter is told when
 * its id is written, or refused. */
void dedupe_wait(const struct entry *e, struct waiter *waiter);

/* For shards with is_queued. */

/* The message is done with: its id is free. */
void dedupe_done(const struct entry *e);
/* The batch removes the message: it removes the id, too. */
void dedupe_encode_removal(const struct entry *e, struct batch *b);
/* Redis has forgotten the message, and the id. */
void dedupe_freed(const struct entry *e);
/* Note that ids were removed from Redis alone. */
void dedupe_purged(struct shard *sh, const uint64_t *ids, size_t count);

/* For the journal. */

/* The entry, which has OWED_ID, is being written: so is its id. */
void dedupe_encode(const struct entry *e, struct batch *b);
/* Write the ids that belong to no message any more, `*budget` at most. */
void dedupe_flush(struct shard *sh, struct batch *b, unsigned *budget);
/* The shard's batch was answered; its entries have been told. */
void dedupe_landed(struct shard *sh, const struct batch_result *result);
