/* commit.h: changes of entries of any shards, and appends to any partitions, that take
 * place together, or not at all.
 *
 * An entry that a commit changes is out of circulation (ENTRY_MOVING, LIES_IN_COMMIT)
 * from the moment it is added. Nobody is given it, and it does not time out. It keeps its
 * place in Redis and all that it is until Redis has confirmed every change of the commit,
 * in one transaction (store.h: in a Redis Cluster it may take its time). Then it enters
 * its new state. When Redis refuses, it is as if nothing had been asked: a new message is
 * gone, a held one is held again.
 *
 * Changes of shards in memory alone take place at that moment too. Without any other they
 * take place at once.
 *
 * A commit is built and sent within one call: nothing else may happen in between. */
#pragma once

#include "shard.h"

struct commit;
struct partition;

struct commit_ops {
	/* Redis has confirmed: the entry, which was held, is about to be changed. */
	void (*on_settled)(struct entry *e);
};

/* `waiter` is counted up, and told the outcome after everything has its new state. */
struct commit *commit_create(struct shard_env *env, const struct commit_ops *ops,
			     struct waiter *waiter);

/* A new message, as shard_publish. @param id  the waiter of its publish id, or NULL */
void commit_publish(struct commit *c, struct shard *sh, struct msg *m, double rank,
		    struct waiter *id);

/* A message for a partition of a topic: struct joint. */
void commit_append(struct commit *c, struct partition *p, struct msg *m);

/* The change of a held message. */
struct commit_change {
	enum entry_state state; /* READY, DELAYED, BURIED or GONE */
	int64_t at_unix_ms;     /* when it is due, or was buried */
	const char *reason;     /* of a failure, which counts; a literal. NULL: none */
	struct msg *msg;        /* what it is from then on; borrowed. NULL: as it is */
};
void commit_settle(struct commit *c, struct entry *e, const struct commit_change *change);

/* Send a commit that is complete. */
void commit_send_take(struct commit *c);

/* For the broker. */

void commit_init(struct shard_env *env);
/* Send those that wait, when nothing else is being written. */
void commit_flush(struct shard_env *env);
/* Is no commit waiting for Redis? */
bool commit_is_idle(const struct shard_env *env);
/* All waiting commits fail. @param text  NULL: that of the status */
void commit_fail(struct shard_env *env, int status, const char *text);
