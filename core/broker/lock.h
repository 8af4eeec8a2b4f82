/* lock.h: named locks, each held once at a time, or shared by any number of holds.
 *
 * A holder is a channel of a client. While it lives, what it holds does not lapse; when
 * it has ended, each hold lapses after its ttl, unless somebody takes it back with its
 * token. The token is greater than all tokens before, of all locks. Redis keeps what is
 * held: a grant is told when Redis has it. Who waits for a lock is served in turn: a
 * shared one is not given while somebody waits, so that readers do not starve a writer.
 */
#pragma once

#include "vhost.h"

struct lock;
struct lock_wait;

/* Embedded in what holds locks. */
struct lock_holder {
	LIST_HEAD(, lock_hold) holds;
	LIST_HEAD(, lock_wait) waits;
};

/* One holder of a lock, and its token. */
struct lock_hold {
	UT_hash_handle hh; /* of the lock's, by token */
	struct lock *lock;
	uint64_t token;
	int64_t ttl_ms;
	int64_t since_ms;           /* wall clock: when this token was given */
	struct lock_holder *holder; /* NULL: it has ended, and the hold lapses */
	LIST_ENTRY(lock_hold) held_link;
	struct heap_node timer; /* of the lapse, by mono_ms */
};

/* Somebody holds it. */
struct lock {
	UT_hash_handle hh;
	struct vhost *vhost;
	char *name;
	size_t name_len;
	bool is_shared;
	struct lock_hold *holds; /* uthash, the oldest first; one, unless it is shared */
	TAILQ_HEAD(, lock_wait) waits;
	unsigned wait_count;
	bool is_due; /* who waited first does no more: in the broker's list */
	LIST_ENTRY(lock) due_link;
};

/* All that is asked of a LOCK. */
struct lock_spec {
	struct slice name;
	int64_t ttl_ms; /* 0, with a token: as before */
	int64_t wait_ms;
	bool is_shared;
	uint64_t token; /* to take back what was held with it; 0: a new one */
	struct lock_holder *holder;
	/* Told when Redis has the grant, or why there is none. It must not yet be
	 * complete. */
	struct waiter *waiter;
	uint64_t *granted; /* receives the token before the waiter is told */
};

#define LOCK_TOKEN_MAX (UINT64_C(1) << 53) /* JSON has no greater ones */

/* On an error the waiter is not told. */
TIDE_MUST_USE int lock_take(struct vhost *v, const struct lock_spec *spec,
			    struct error *err);
/* TIDE_ELEASE unless the token is one of the lock now, and the holder lives or the
 * lock has not lapsed. */
TIDE_MUST_USE int lock_check(struct vhost *v, struct slice name, uint64_t token,
			     struct error *err);
/* The same check, then it is free, or the next one's. The waiter is told when Redis
 * knows.
 */
TIDE_MUST_USE int lock_release(struct vhost *v, struct slice name, uint64_t token,
			       struct waiter *waiter, struct error *err);

void lock_holder_init(struct lock_holder *h);
/* Requests of the holder that wait fail, as if their time were over. */
void lock_holder_end_waits(struct lock_holder *h);
/* Whose name it may no longer have: requests that wait for it fail, with what `may_have`
 * says, and a lock lapses as if its holder had ended. */
typedef bool (*lock_may_have_fn)(void *ctx, struct slice name, struct error *err);
void lock_holder_recheck(struct lock_holder *h, lock_may_have_fn may_have, void *ctx);
/* The holder has ended: its locks lapse after their ttl. */
void lock_holder_end(struct lock_holder *h);

/* A field of Redis, "<name>" or "<name> <token>" of a shared lock: its holder may come
 * back. */
void lock_restore(struct vhost *v, struct slice field, struct slice value);
/* Let lapse what is due, and end waits whose time is over. */
void lock_turn(struct broker *b);
/* When lock_turn is to be called, wall clock; 0: never. */
int64_t lock_due_ms(const struct broker *b);
/* The broker stops: whoever waits is told so. */
void lock_drain(struct broker *b);
/* Frees those of a vhost, which goes. */
void lock_free_all(struct vhost *v);
