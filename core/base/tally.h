/* tally.h: values counted by steps of size, with their sum and the largest: what a
 * histogram of /metrics is made of.
 *
 * Unlike histogram.h it is small, and gives no quantiles. */
#pragma once

#include <stdint.h>

#define TALLY_STEPS_MAX 16

/* A value belongs to the first step that is not below it. The last one is UINT64_MAX. */
extern const uint64_t tally_times_ns[]; /* 100 us to 5 s */
extern const uint64_t tally_sizes[];    /* 1 to 16,384, of anything */

struct tally {
	uint64_t counts[TALLY_STEPS_MAX];
	uint64_t count, sum, max;
};

/* @param steps  the same at each call for this tally */
void tally_add(struct tally *t, const uint64_t *steps, uint64_t value);

/* Counts of values by size, for quantiles.
 *
 * Log-linear buckets: each power of two is cut into 2^sub_bits. Bucket 0 has the value
 * 0. The caller of the first three functions keeps the counts. */

/* The bucket of a value; it may lie behind the last one of the caller's array. */
static inline unsigned histogram_bucket(uint64_t value, unsigned sub_bits)
{
	unsigned shift;

	if (value >> sub_bits == 0)
		return (unsigned)value;
	shift = 63 - (unsigned)__builtin_clzll(value) - sub_bits;
	return (shift << sub_bits) + (unsigned)(value >> shift);
}

/* The lowest value of a bucket. */
uint64_t histogram_lowest(unsigned bucket, unsigned sub_bits);

/* What `share` (0..1) of the values are at or below; 0 when there is none. Within a
 * bucket the values are taken to be spread evenly; none is above `max`. */
uint64_t histogram_quantile(const uint64_t *counts, unsigned buckets, unsigned sub_bits,
			    double share, uint64_t max);

/* A histogram of values up to 2^40, of any unit, known to within 1.6 %. */
struct histogram {
	uint64_t *counts;
	uint64_t total;
	uint64_t max;
};

void histogram_init(struct histogram *h);
void histogram_deinit(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t value);
uint64_t histogram_at(const struct histogram *h, double share);
/* How many values are at least `from` and below `to`, to within a bucket. */
uint64_t histogram_between(const struct histogram *h, uint64_t from, uint64_t to);
