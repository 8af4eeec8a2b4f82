/* allowance.h: what one user, address or connection may have and do at a time, and what
 * it has.
 *
 * All connections of a user share one, and all of an address. It lasts as long as one of
 * them. When more was published than its rates let it, it lasts until that is made good:
 * who comes again gains nothing. Times are of the clock that nobody sets. */
#pragma once

#include <sys/queue.h>

#include "base/json.h"
#include "user.h"

/* Of those that no connection has: what they owe is forgotten first that was left first.
 */
#define ALLOWANCE_IDLE_MAX 4096

enum allowance_kind { ALLOWANCE_USER, ALLOWANCE_ADDRESS, ALLOWANCE_CONNECTION };

/* Refused at a limit. */
struct allowance_counters {
	uint64_t connections, channels, publishes;
};

/* A token bucket. Full, it lets a second's worth through at once; what is larger than
 * that goes when there is anything in it, and what follows waits the longer. */
struct allowance_bucket {
	uint64_t used; /* thousandths of what is metered; the rate makes them good */
	int64_t at_ms; /* as of then */
};

struct allowance;
TAILQ_HEAD(allowance_list, allowance);

struct allowances {
	struct allowance *by_key;   /* uthash */
	struct allowance_list idle; /* those without a connection */
	unsigned idle_count;
	struct allowance_counters refused;
};

struct allowance {
	UT_hash_handle hh;
	TAILQ_ENTRY(allowance) link;
	struct allowances *all;
	struct user_limits limits;
	uint64_t connections;
	uint64_t channels;
	struct allowance_bucket messages, bytes;
	struct allowance_counters refused;
	enum allowance_kind kind;
	size_t name_len;
	char key[]; /* its kind, then its name, with an end */
};

void allowance_init(struct allowances *as);
/* No connection has one. */
void allowance_deinit(struct allowances *as);

/* A connection more of this user, or this address. TIDE_ELIMIT: it has as many as it may.
 *
 * @param limits  from now on
 * @param out     untouched on failure */
TIDE_MUST_USE int allowance_enter(struct allowances *as, enum allowance_kind kind,
				  struct slice name, const struct user_limits *limits,
				  struct allowance **out, struct error *err);
/* Accepts NULL. Its channels have been taken back. */
void allowance_leave(struct allowance *a, int64_t mono_ms);
/* The limits of a user have changed: of what he has nothing ends. */
void allowance_change(struct allowances *as, struct slice name,
		      const struct user_limits *limits);

/* Any may be NULL. */
TIDE_MUST_USE int allowance_check_channels(struct allowance *a, uint64_t more,
					   struct error *err);
void allowance_add_channels(struct allowance *a, uint64_t count);
void allowance_remove_channels(struct allowance *a, uint64_t count);
/* Is there a rate, so that publishes are to be asked about? */
bool allowance_is_metered(const struct allowance *a);
/* How long until it may publish again; 0: now. Accepts NULL. */
int64_t allowance_wait_ms(struct allowance *a, int64_t mono_ms);
/* TIDE_ELIMIT: not now. The error says when. */
TIDE_MUST_USE int allowance_check_publish(struct allowance *a, int64_t mono_ms,
					  struct error *err);
void allowance_count_publish(struct allowance *a, size_t bytes, int64_t mono_ms);

/* A member of an object: what it has, its limits, what was refused. Nothing without
 * limits. */
void allowance_write(const struct allowance *a, struct json *out);
