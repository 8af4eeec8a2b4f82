/* random.h: random numbers from a state of one word (SplitMix64).
 *
 * Every state is as good a seed as any other. The same seed gives the same sequence.
 * Not for secrets. */
#pragma once

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 to `limit`, each equally likely. Numbers beyond the last whole multiple are drawn
 * again. */
static inline uint64_t random_up_to(uint64_t *state, uint64_t limit)
{
	uint64_t count = limit + 1;
	uint64_t beyond, drawn;

	if (limit == UINT64_MAX)
		return random_next(state);
	beyond = UINT64_MAX - UINT64_MAX % count;
	do
		drawn = random_next(state);
	while (drawn >= beyond);
	return drawn % count;
}
