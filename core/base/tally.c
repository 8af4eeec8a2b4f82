#include "tally.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

const uint64_t tally_times_ns[] = { 100 * US,  250 * US,  500 * US,  1 * MS,
				    2500 * US, 5 * MS,    10 * MS,   25 * MS,
				    50 * MS,   100 * MS,  250 * MS,  500 * MS,
				    1000 * MS, 2500 * MS, 5000 * MS, UINT64_MAX };

const uint64_t tally_sizes[] = { 1, 4, 16, 64, 256, 1024, 4096, 16384, UINT64_MAX };

void tally_add(struct tally *t, const uint64_t *steps, uint64_t value)
{
	unsigned i = 0;

	while (value > steps[i])
		i++;
	t->counts[i]++;
	t->count++;
	t->sum += value;
	if (value > t->max)
		t->max = value;
}
