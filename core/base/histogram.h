/* histogram.h: counts of values by size, for percentiles of latencies.
 *
 * Log-linear buckets: each power of two is cut into 64, so a value is known to
 * within 1.6 %. Values are unsigned, of any unit, up to 2^40. */
#ifndef TIDE_BASE_HISTOGRAM_H
#define TIDE_BASE_HISTOGRAM_H

#include <stdint.h>

struct histogram {
	uint64_t *counts;
	uint64_t total;
	uint64_t max;
};

void histogram_init(struct histogram *h);
void histogram_deinit(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t value);
/* The value that `share` (0..1) of all are at or below; 0 when there is none. */
uint64_t histogram_at(const struct histogram *h, double share);

/* How many values are at least `from` and below `to`, to within a bucket. */
uint64_t histogram_between(const struct histogram *h, uint64_t from, uint64_t to);

#endif
