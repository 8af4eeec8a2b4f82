/* entry.h: a message in a shard: what differs from queue to queue.
 *
 * The message is shared and never changes; the entry says where it stands in this shard.
 * `state` is the truth in memory, `home` the set of Redis that the last encoded batch put
 * it into. The journal writes the difference: at most one write a batch, and none for a
 * message that comes and goes between two. Its flags say more of where it lies, and what
 * Redis is still to be told or is to answer. docs/architecture.md draws all of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/msg.h"
#include "store/store.h"
#include "base/waiter.h"

/* The first four have a set in Redis each, of the same number. */
enum entry_state {
	ENTRY_READY = STORE_READY,
	ENTRY_DELAYED = STORE_DELAYED,
	ENTRY_BURIED = STORE_BURIED,
	ENTRY_UNACKED = STORE_UNACK,
	ENTRY_MOVING, /* its copy (dead_letter.c) or its commit is not durable yet */
	ENTRY_GONE,
};

#define HOME_NONE STORE_SET_COUNT /* in no set: Redis does not have the message */

/* Where it lies, besides its state and home: the lower half of its flags. */
enum entry_lies {
	LIES_OUTSIDE = 1 << 0,   /* sorts behind the window: Redis alone will keep it */
	LIES_LISTED = 1 << 1,    /* in its stage's list of outside entries */
	LIES_LEDGERED = 1 << 2,  /* held for so long that the unack set names it */
	LIES_PARKED = 1 << 3,    /* ready, but its group is full: see order.h */
	LIES_IN_COMMIT = 1 << 4, /* moving: a commit refers to it, and ends that */
	LIES_AT_FINGER = 1 << 5, /* its lane has a finger at it: see window.c */
	LIES_UNSTORED = 1 << 6,  /* never yet durable; counted in the journal's bytes */
	LIES_TRIED = 1 << 7,     /* Redis has a tries field for it */
};

/* The debts to Redis, or of it: the upper half. */
enum entry_owed {
	OWED_WRITE = 1 << 8,  /* it is dirty: in the shard's list of what changed */
	OWED_ANSWER = 1 << 9, /* it is in flight: named by a batch that is not answered */
	OWED_TRIES = 1 << 10, /* deliveries or failures are to be written */
	OWED_SCORE = 1 << 11, /* same set, new score */
	OWED_BODY = 1 << 12,  /* it was revised: Redis has the body of before */
	/* A refused batch with it may have been carried out: which sets of Redis have it
	 * is not known. It is dirty, or in flight. */
	OWED_UNSURE = 1 << 13,
	OWED_ID = 1 << 14,   /* its waiter is that of its publish id: see dedupe.h */
	OWED_NEXT = 1 << 15, /* its waiter waits for the next batch, too */
};

struct group;
struct lane;
struct shard;
struct lease;
struct shard_expiring;

struct entry {
	struct msg *msg; /* NULL only for an id of Redis that has no readable body */
	uint64_t id;
	struct shard *shard;
	double rank;
	int64_t at_unix_ms;      /* delayed: due; unacked, buried: since when */
	int64_t expires_unix_ms; /* in this queue: not to be delivered after; 0: never */
	double stored_score;     /* by which `home` has it, unless that is HOME_NONE */

	TAILQ_ENTRY(entry) link; /* a lane, the young list, the moving list, outside */
	TAILQ_ENTRY(entry) dirty_link; /* the shard's dirty list */
	struct lane *lane;             /* the window that it is in, or NULL */
	struct group *group; /* of which it has a slot, or in which it is parked */

	struct waiter *waiter; /* told when Redis has it, or has forgotten it */
	struct lease *lease;   /* whose it is, while unacked */
	TAILQ_ENTRY(entry) lease_link;
	uint64_t tag;
	struct shard_expiring *expiring; /* in a window */

	uint32_t deliveries; /* so far, with those that came back without a failure */
	uint32_t failures;   /* nacks, timeouts and consumers lost while at work on it */
	const char *reason;  /* of the last failure; a literal, NULL when none */
	uint32_t lease_ms;   /* while it is held: how long its lease is */
	uint16_t failed[STORE_REASONS]; /* failures, by reason */
	uint8_t state;                  /* enum entry_state */
	uint8_t home;                   /* enum store_set or HOME_NONE */
	uint16_t flags;                 /* enum entry_lies, enum entry_owed */
};

TAILQ_HEAD(entry_list, entry);

/* Tell the waiter, if the entry has one; it has none afterwards. */
static inline void entry_tell(struct entry *e, int status, const char *text)
{
	struct waiter *w = e->waiter;

	if (!w)
		return;
	e->waiter = NULL;
	e->flags &= (uint16_t) ~(OWED_ID | OWED_NEXT);
	waiter_done(w, status, text);
}
