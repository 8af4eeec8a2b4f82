#include "tally.h"

#include "mem.h"

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

#define SUB_BITS 6
#define VALUE_BITS 40
#define BUCKETS ((VALUE_BITS - SUB_BITS + 1) << SUB_BITS)

uint64_t histogram_lowest(unsigned bucket, unsigned sub_bits)
{
	unsigned shift = bucket >> sub_bits;
	uint64_t sub = UINT64_C(1) << sub_bits;

	return shift == 0 ? bucket : ((bucket & (sub - 1)) + sub) << (shift - 1);
}

uint64_t histogram_quantile(const uint64_t *counts, unsigned buckets, unsigned sub_bits,
			    double share, uint64_t max)
{
	uint64_t total = 0, before = 0;
	double wanted;

	for (unsigned i = 0; i < buckets; i++)
		total += counts[i];
	wanted = share * (double)total;
	for (unsigned i = 0; i < buckets; before += counts[i++]) {
		double low, value;

		if (counts[i] == 0 || (double)(before + counts[i]) < wanted)
			continue;
		low = (double)histogram_lowest(i, sub_bits);
		value = low + ((double)histogram_lowest(i + 1, sub_bits) - low) *
				      (wanted - (double)before) / (double)counts[i];
		return value < (double)max ? (uint64_t)value : max;
	}
	return max;
}

void histogram_init(struct histogram *h)
{
	*h = (struct histogram){ .counts = mem_zalloc(BUCKETS * sizeof(uint64_t)) };
}

void histogram_deinit(struct histogram *h)
{
	mem_free(h->counts);
	*h = (struct histogram){ 0 };
}

static unsigned bucket_of(uint64_t value)
{
	unsigned bucket = histogram_bucket(value, SUB_BITS);

	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

void histogram_add(struct histogram *h, uint64_t value)
{
	h->counts[bucket_of(value)]++;
	h->total++;
	if (value > h->max)
		h->max = value;
}

uint64_t histogram_at(const struct histogram *h, double share)
{
	return histogram_quantile(h->counts, BUCKETS, SUB_BITS, share, h->max);
}

uint64_t histogram_between(const struct histogram *h, uint64_t from, uint64_t to)
{
	unsigned end = to >> VALUE_BITS ? BUCKETS : bucket_of(to);
	uint64_t n = 0;

	for (unsigned i = from >> VALUE_BITS ? BUCKETS : bucket_of(from); i < end; i++)
		n += h->counts[i];
	return n;
}
