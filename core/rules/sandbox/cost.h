/* cost.h: how long the calls of a script take, as a histogram of powers of two. */
#pragma once

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
