/* dedupe.h: what a queue has seen: a second publish with the same id is not stored.
 *
 * Each queue decides alone. It keeps the ids of its publishes (PUB id=) for its dedupe
 * window, all of them in memory, whatever shard their messages are in. For a durable
 * queue an id goes to Redis in the transaction that writes its message, so that a crash
 * leaves both or none; and when the message was acknowledged before it was written, the
 * id is written alone. A publish with an id is confirmed when its id is written: from
 * then on it is remembered, also through kill -9, until the window is over.
 *
 * Until then the id is *pending*, and a repeated publish waits for what becomes of the
 * first: it succeeds or fails with it. An id whose write was refused is forgotten.
 *
 * The ids of all queues have one limit of memory. Beyond it a publish with a new one is
 * refused: to forget an old one instead would break a promise. */
#ifndef TIDE_SHARD_DEDUPE_H
#define TIDE_SHARD_DEDUPE_H

#include "dedupe_table.h"
#include "shard.h"

struct dedupe;
struct dedupe_queue;
struct json;

struct dedupe *dedupe_create(struct shard_env *env, size_t max_bytes);
/* Every queue is gone. */
void dedupe_destroy(struct dedupe *d);

/* Begin for the shards of a queue, which remember publish ids together. They and the
 * array are good until dedupe_close. */
struct dedupe_queue *dedupe_open(struct dedupe *d, struct shard **shards, unsigned count);
/* The queue is about to close its shards: it forgets everything. */
void dedupe_close(struct dedupe_queue *dq_take);
/* Read what Redis has of a shard. The waiter is told when that is done. */
void dedupe_recover(struct shard *sh, struct waiter *waiter);

/* Room in memory for the id, or 0 when it has been seen. */
size_t dedupe_wanted(const struct dedupe_queue *dq, const struct dedupe_key *key);
/* Is there room for so much? TIDE_EFULL */
TIDE_MUST_USE int dedupe_admit(const struct dedupe *d, size_t bytes, struct error *err);

struct dedupe_publish {
	struct dedupe_key key;
	int64_t window_ms; /* how long it is remembered; above 0 */
	struct shard *shard;
	struct msg *msg;
	double rank;
};
/* As shard_publish. False: it is a duplicate, `*first` is the message that came first,
 * and the waiter, if it is not NULL, is told when that one is durable. */
bool dedupe_publish(struct dedupe_queue *dq, const struct dedupe_publish *p,
		    struct waiter *waiter, uint64_t *first);
/* Members of an EXPLAIN's queue object. @param window_ms  0 = nothing is remembered */
void dedupe_explain(const struct dedupe_queue *dq, const struct dedupe_key *key,
		    int64_t window_ms, struct json *j);

size_t dedupe_count(const struct dedupe_queue *dq);

/* Forget what is due, as much of it as a turn may. */
void dedupe_turn(struct dedupe *d);
/* When there is something to forget; 0 = there is nothing. */
int64_t dedupe_due_ms(const struct dedupe *d);
size_t dedupe_bytes(const struct dedupe *d);

/* For the journal. */

/* The entry, which has ENTRY_DEDUPE, is being written: so is its id. */
void dedupe_encode(struct entry *e, struct batch *b);
/* Write the ids that belong to no message any more, `*budget` at most. */
void dedupe_flush(struct shard *sh, struct batch *b, unsigned *budget);
/* The shard's batch was answered; its entries have been told. */
void dedupe_landed(struct shard *sh, const struct batch_result *result);

#endif
