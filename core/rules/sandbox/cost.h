/* cost.h: what the calls of a script have cost: since it was loaded, as a histogram of
 * powers of two, and over the last minute.
 *
 * The minute is a ring of slots of MINUTE_SLOT_S seconds: a call counts in that of its
 * begin. The oldest one is emptied when its turn comes again, so what is read is of the
 * last 55 to 60 seconds. The clock is monotonic. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/tally.h"
#include "base/json.h"

/* Bucket n + 1 counts calls of at least 2^n nanoseconds and less than 2^(n+1). The last
 * one, about half a minute, also counts longer calls. */
#define COST_BUCKETS 37

struct cost {
	uint64_t buckets[COST_BUCKETS];
	uint64_t max_ns;
};

static inline void cost_add(struct cost *c, uint64_t ns)
{
	unsigned bucket = histogram_bucket(ns, 0);

	c->buckets[bucket < COST_BUCKETS ? bucket : COST_BUCKETS - 1]++;
	if (ns > c->max_ns)
		c->max_ns = ns;
}

/* The time that `share` (0..1) of the calls did not exceed, as the bound of a bucket. 0
 * without calls. */
uint64_t cost_quantile_ns(const struct cost *c, double share);

/* Members p50_ns, p99_ns, max_ns and "histogram": for each bucket that is not empty its
 * lower bound in nanoseconds and its count. */
void cost_write(const struct cost *c, struct json *out);

#define MINUTE_SLOT_S 5
#define MINUTE_SLOTS (60 / MINUTE_SLOT_S)

struct minute_slot {
	int64_t number; /* which slot it is, since the clock began */
	uint32_t calls, errors;
	uint64_t time_ns, max_ns;
	uint32_t buckets[COST_BUCKETS];
};

struct minute {
	struct minute_slot slots[MINUTE_SLOTS];
};

struct minute_sum {
	uint64_t calls, errors, time_ns;
	struct cost cost;
};

void minute_add(struct minute *m, int64_t began_ns, uint64_t took_ns, bool has_failed);
void minute_read(const struct minute *m, int64_t now_ns, struct minute_sum *out);
