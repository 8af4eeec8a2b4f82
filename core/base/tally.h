/* tally.h: a writer of what Prometheus reads: its text format 0.0.4, or OpenMetrics
 * 1.0.
 *
 *	struct exposition e = { .out = &buf };
 *	exposition_family(&e, &family);
 *	exposition_sample(&e, labels, label_count, value);   once for each series
 *	...                                                  the next family
 *	exposition_end(&e);
 *
 * All samples of a family follow it: no family is begun twice. */
#pragma once

#include <stdint.h>

#include "buf.h"

#define TALLY_STEPS_MAX 16

struct tally {
	uint64_t counts[TALLY_STEPS_MAX];
	uint64_t count, sum, max;
};

/* A histogram of values up to 2^40, of any unit, known to within 1.6 %. */
struct histogram {
	uint64_t *counts;
	uint64_t total;
	uint64_t max;
};

enum exposition_type {
	EXPOSITION_COUNTER, /* only grows; the writer ends its name in "_total" */
	EXPOSITION_GAUGE,
	EXPOSITION_HISTOGRAM,
	EXPOSITION_INFO, /* labels that tell something, and 1; its name ends in "_info" */
};

struct exposition_family {
	const char *name; /* with its unit, without "_total" and "_info" */
	enum exposition_type type;
	const char *help; /* one line */
};

struct exposition_label {
	const char *name;
	struct slice value;
};

struct exposition {
	struct buf *out;
	bool is_openmetrics;
	struct exposition_family family; /* of the samples that follow */
};

/* A value belongs to the first step that is not below it. The last one is UINT64_MAX. */
extern const uint64_t tally_times_ns[]; /* 100 us to 5 s */
extern const uint64_t tally_sizes[];    /* 1 to 16,384, of anything */

/* @param steps  the same at each call for this tally */
void tally_add(struct tally *t, const uint64_t *steps, uint64_t value);
/* Add another tally of the same steps. */
void tally_merge(struct tally *sum, const struct tally *t);

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

/* The value that `share` (0..1) of the values do not exceed; 0 when there is none.
 * Within a bucket the values are taken to be spread evenly; none is above `max`. */
uint64_t histogram_quantile(const uint64_t *counts, unsigned buckets, unsigned sub_bits,
			    double share, uint64_t max);

void histogram_init(struct histogram *h);
void histogram_deinit(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t value);
uint64_t histogram_at(const struct histogram *h, double share);
/* How many values are at least `from` and below `to`, to within a bucket. */
uint64_t histogram_between(const struct histogram *h, uint64_t from, uint64_t to);

static inline struct exposition_label exposition_text(const char *name, const char *text)
{
	return (struct exposition_label){ name, slice_from(text) };
}

/* The Content-Type of the answer. */
const char *exposition_content_type(bool is_openmetrics);
/* Does a request want OpenMetrics, by its header Accept (may be empty)? */
bool exposition_wants_openmetrics(struct slice accept);

void exposition_family(struct exposition *e, const struct exposition_family *f);
void exposition_sample(struct exposition *e, const struct exposition_label *labels,
		       unsigned count, double value);
/* A family with one sample. */
void exposition_counter(struct exposition *e, const char *name, const char *help,
			double value);
void exposition_gauge(struct exposition *e, const char *name, const char *help,
		      double value);
/* The samples of one series of a histogram.
 *
 * @param scale  what a value of the tally is divided by: 1e9 for ns */
void exposition_tally(struct exposition *e, const struct exposition_label *labels,
		      unsigned count, const struct tally *t, const uint64_t *steps,
		      double scale);
/* Likewise, with buckets of any bounds. */
struct exposition_buckets {
	unsigned count;
	const double *bounds;   /* upper ones, which grow */
	const uint64_t *counts; /* one more: the last takes what is beyond */
	double sum;
};
void exposition_histogram(struct exposition *e, const struct exposition_label *labels,
			  unsigned count, const struct exposition_buckets *b);
void exposition_end(struct exposition *e);
