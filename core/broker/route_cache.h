/* route_cache.h: routes, and what exchanges remember of them.
 *
 * Where every script on the way says that its decision depends on the routing
 * key alone, the exchange remembers the whole of it and no script is called
 * until a binding or a generation changes. Where that becomes too much, the
 * oldest go, so those that have been outdated by a change go first. */
#pragma once

#include "exchange.h"
#include "queue.h"

#define ROUTE_ASK ((unsigned)-1)

struct route_target {
	struct queue *queue;
	unsigned shard; /* ROUTE_ASK: the script is asked for each message */
	bool has_rank;  /* else the script is asked for each message */
	double rank;
	const struct binding
		*binding; /* that led there; NULL from the default exchange */
};

struct route {
	UT_hash_handle hh;              /* of the exchange that remembers it */
	TAILQ_ENTRY(route) memory_link; /* in the order in which they were made */
	struct exchange *exchange;
	uint64_t version;
	uint64_t epoch;
	struct route_target *targets;
	unsigned count;
	unsigned cap;
	bool is_pure;
	/* For EXPLAIN. Not beside is_pure: it is written for each message, and reading
	 * both at once then would wait for the write. */
	bool was_cached;
	size_t key_len;
	char key[];
};

struct route *route_cache_new(struct slice key);
/* One that no exchange remembers. Accepts NULL. */
void route_cache_free(struct route *r);
/* Keep a pure route, in the place of an outdated one for the same key. */
void route_cache_add(struct exchange *x, struct route *r);
void route_cache_clear(struct exchange *x);
