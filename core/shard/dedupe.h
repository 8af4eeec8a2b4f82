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

#include "broker/decide.h"

struct dedupe;
struct dedupe_queue;

struct dedupe *dedupe_create(struct shard_env *env, size_t max_bytes);
/* Every queue is gone. */
void dedupe_destroy(struct dedupe *d);

/* ---- publishing -------------------------------------------------------------------- */

/* Whether there is room for what the decision would have remembered: TIDE_EFULL. */
TIDE_MUST_USE int dedupe_admit(struct broker *b, const struct decision *decision,
			       struct error *err);
/* As shard_publish, for an outcome's message, which has an id. False: it is a duplicate,
 * `*first` is the message that came first, and the waiter, if it is not NULL, is told
 * when that one is durable. */
bool dedupe_publish(const struct outcome *o, const struct pick *pick,
		    struct waiter *waiter, uint64_t *first);
/* Members of an EXPLAIN's queue object, for a message with an id. */
void dedupe_explain(const struct outcome *o, const struct pick *pick, struct json *j);

/* ---- queues ------------------------------------------------------------------------ */

/* How long it remembers; 0 = not at all. */
int64_t dedupe_window_ms(const struct queue *q);
size_t dedupe_count(const struct queue *q);
/* The queue is about to close its shards: it forgets everything. */
void dedupe_close_queue(struct queue *q);
/* Read what Redis has of a shard. The waiter is told when that is done. */
void dedupe_recover(struct shard *sh, struct waiter *waiter);

/* ---- time -------------------------------------------------------------------------- */

/* Forget what is due, so much of it as a turn may. */
void dedupe_turn(struct dedupe *d);
/* When there is something to forget; 0 = there is nothing. */
int64_t dedupe_due_ms(const struct dedupe *d);
size_t dedupe_bytes(const struct dedupe *d);

#endif
