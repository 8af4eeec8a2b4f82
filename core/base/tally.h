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
