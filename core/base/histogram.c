#include "histogram.h"

#include <math.h>

#include "mem.h"

#define SUB_BITS 6 /* 64 buckets a power of two */
#define SUB (1u << SUB_BITS)
#define VALUE_BITS 40
#define BUCKETS ((VALUE_BITS - SUB_BITS + 1) * SUB)

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
	unsigned shift;

	if (value < SUB)
		return (unsigned)value;
	if (value >> VALUE_BITS)
		return BUCKETS - 1;
	shift = 63 - (unsigned)__builtin_clzll(value) - SUB_BITS;
	return (shift + 1) * SUB + (unsigned)((value >> shift) - SUB);
}

static uint64_t value_of(unsigned bucket)
{
	unsigned shift = bucket / SUB;

	if (shift == 0)
		return bucket;
	return ((uint64_t)(bucket % SUB) + SUB) << (shift - 1);
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
	uint64_t wanted = (uint64_t)ceil(share * (double)h->total);
	uint64_t seen = 0;

	for (unsigned i = 0; i < BUCKETS && h->total; i++) {
		seen += h->counts[i];
		if (seen >= wanted && seen > 0)
			return value_of(i) < h->max ? value_of(i) : h->max;
	}
	return h->max;
}

uint64_t histogram_between(const struct histogram *h, uint64_t from, uint64_t to)
{
	unsigned end = to >> VALUE_BITS ? BUCKETS : bucket_of(to);
	uint64_t n = 0;

	for (unsigned i = from >> VALUE_BITS ? BUCKETS : bucket_of(from); i < end; i++)
		n += h->counts[i];
	return n;
}
