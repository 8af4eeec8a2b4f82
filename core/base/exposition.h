/* exposition.h: a writer of what Prometheus reads: its text format 0.0.4, or OpenMetrics
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

#include "buf.h"
#include "tally.h"

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

static inline struct exposition_label exposition_text(const char *name, const char *text)
{
	return (struct exposition_label){ name, slice_from(text) };
}

/* The Content-Type of the answer. */
const char *exposition_content_type(bool is_openmetrics);
/* Whether a request wants OpenMetrics, by its header Accept (may be empty). */
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
