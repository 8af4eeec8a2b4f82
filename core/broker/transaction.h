/* transaction.h: publishes and settles that take place together, or not at all.
 *
 * First the filters run, a slice of a turn at a time. Then everything else is decided in
 * one call: routes, shards, ranks, what the retry scripts say. What fails changes
 * nothing. Else a commit (shard/commit.h) carries it all out. A message that is
 * dead-lettered is removed by the same commit that stores its copy. */
#pragma once

#include "base/error.h"
#include "fate.h"

struct msg;
struct subject;
struct transaction;
struct vhost;
struct waiter;

/* @param subject  who publishes; it outlives the transaction */
struct transaction *transaction_create(struct vhost *v, struct subject *subject);
/* Accepts NULL. Nothing of it has taken place, unless transaction_commit has succeeded.
 */
void transaction_destroy(struct transaction *t);

/* Each of these is of the client's request `number`, which errors name. */

/* The message has had no id so far; its times count from now on. */
void transaction_publish_take(struct transaction *t, struct msg *m, bool is_mandatory,
			      unsigned number);
/* A client's word about a message that it holds. */
struct transaction_settling {
	enum fate_cause cause;
	int64_t delay_ms;
	struct slice reason; /* of a NACK; empty: none */
	unsigned number;
};
/* The fate of a held message is decided. */
void transaction_settle(struct transaction *t, struct entry *e,
			const struct transaction_settling *what);

/* Run filters. TIDE_AGAIN: the slice is spent, go on in the next turn. On an error
 * destroy it. */
TIDE_MUST_USE int transaction_filter(struct transaction *t, struct error *err);

struct transaction_result {
	uint64_t published; /* without duplicates and dead-lettered copies */
	uint64_t settled;
};
/* Decide the rest and begin. The waiter is told when everything has taken place, or that
 * Redis has refused it. On an error nothing changes. */
TIDE_MUST_USE int transaction_commit(struct transaction *t, struct waiter *waiter,
				     struct transaction_result *out, struct error *err);
