#include "tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "utf8.h"

/* Counts of values by size, for quantiles.
 *
 * Log-linear buckets: each power of two is cut into 2^sub_bits. Bucket 0 has the value
 * 0. The caller of the first three functions keeps the counts. */

/* Values counted by steps of size, with their sum and the largest: what a
 * histogram of /metrics is made of.
 *
 * Unlike histogram.h it is small, and gives no quantiles. */

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

void tally_merge(struct tally *sum, const struct tally *t)
{
	for (unsigned i = 0; i < TALLY_STEPS_MAX; i++)
		sum->counts[i] += t->counts[i];
	sum->count += t->count;
	sum->sum += t->sum;
	if (t->max > sum->max)
		sum->max = t->max;
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

/* Whole numbers below it are exact. */
#define EXACT_MAX 9007199254740992.0

const char *exposition_content_type(bool is_openmetrics)
{
	return is_openmetrics
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

/* Prometheus sends "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;..." and
 * reads either. */
bool exposition_wants_openmetrics(struct slice accept)
{
	while (accept.len > 0) {
		struct slice one = slice_cut(&accept, ',');
		struct slice type = slice_cut(&one, ';');

		while (type.len > 0 && type.data[0] == ' ')
			type = (struct slice){ type.data + 1, type.len - 1 };
		if (slice_is(type, "application/openmetrics-text"))
			return true;
	}
	return false;
}

static void append_name(struct exposition *e, const char *suffix)
{
	buf_append_text(e->out, e->family.name);
	buf_append_text(e->out, suffix);
}

/* The end of the name of a family in its HELP and TYPE, and in its samples. */
static const char *suffix_of(const struct exposition *e, bool is_sample)
{
	if (e->is_openmetrics && !is_sample)
		return "";
	return e->family.type == EXPOSITION_COUNTER ? "_total"
	       : e->family.type == EXPOSITION_INFO  ? "_info"
						    : "";
}

void exposition_family(struct exposition *e, const struct exposition_family *f)
{
	static const char *const types[] = { "counter", "gauge", "histogram", "info" };
	bool is_gauge = f->type == EXPOSITION_INFO && !e->is_openmetrics;

	e->family = *f;
	buf_append_text(e->out, "# HELP ");
	append_name(e, suffix_of(e, false));
	buf_append_char(e->out, ' ');
	buf_append_text(e->out, f->help);
	buf_append_text(e->out, "\n# TYPE ");
	append_name(e, suffix_of(e, false));
	buf_append_char(e->out, ' ');
	buf_append_text(e->out, is_gauge ? "gauge" : types[f->type]);
	buf_append_char(e->out, '\n');
}

static bool is_plain(char c)
{
	return c != '"' && c != '\\' && c != '\n' && (c & 0x80) == 0;
}

/* The character at the front; how many bytes of the text it was. */
static size_t append_other(struct buf *out, const char *data, size_t len)
{
	uint32_t point;
	size_t n = utf8_decode(data, len, &point);

	if (n == 0) {
		buf_append_text(out, "\xef\xbf\xbd");
		return 1;
	}
	if (n == 1)
		buf_append_char(out, '\\');
	if (data[0] == '\n')
		buf_append_char(out, 'n');
	else
		buf_append(out, data, n);
	return n;
}

static void append_value(struct buf *out, struct slice s)
{
	size_t at = 0, plain;

	while (at < s.len) {
		for (plain = at; plain < s.len && is_plain(s.data[plain]); plain++)
			;
		buf_append(out, s.data + at, plain - at);
		at = plain;
		if (at < s.len)
			at += append_other(out, s.data + at, s.len - at);
	}
}

static void append_labels(struct buf *out, const struct exposition_label *labels,
			  unsigned count, const char *le)
{
	if (count == 0 && !le)
		return;
	buf_append_char(out, '{');
	for (unsigned i = 0; i < count; i++) {
		if (i > 0)
			buf_append_char(out, ',');
		buf_append_text(out, labels[i].name);
		buf_append(out, "=\"", 2);
		append_value(out, labels[i].value);
		buf_append_char(out, '"');
	}
	if (le)
		buf_printf(out, "%sle=\"%s\"", count ? "," : "", le);
	buf_append_char(out, '}');
}

#define NUMBER_MAX 32

/* The fewest digits that read back as the same number: 17 always do. */
static void format_number(double n, char out[NUMBER_MAX])
{
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(out, NUMBER_MAX, "%.*g", digits, n);
		if (strtod(out, NULL) == n)
			return;
	}
}

static void append_number(struct buf *out, double n)
{
	char text[NUMBER_MAX];

	if (n >= 0 && n < EXACT_MAX && floor(n) == n) {
		buf_append_uint(out, (uint64_t)n);
	} else if (isnan(n)) {
		buf_append_text(out, "NaN");
	} else if (isinf(n)) {
		buf_append_text(out, n > 0 ? "+Inf" : "-Inf");
	} else {
		format_number(n, text);
		buf_append_text(out, text);
	}
}

static void append_end(struct exposition *e, double value)
{
	buf_append_char(e->out, ' ');
	append_number(e->out, value);
	buf_append_char(e->out, '\n');
}

void exposition_sample(struct exposition *e, const struct exposition_label *labels,
		       unsigned count, double value)
{
	append_name(e, suffix_of(e, true));
	append_labels(e->out, labels, count, NULL);
	append_end(e, value);
}

void exposition_counter(struct exposition *e, const char *name, const char *help,
			double value)
{
	exposition_family(e,
			  &(struct exposition_family){ name, EXPOSITION_COUNTER, help });
	exposition_sample(e, NULL, 0, value);
}

void exposition_gauge(struct exposition *e, const char *name, const char *help,
		      double value)
{
	exposition_family(e, &(struct exposition_family){ name, EXPOSITION_GAUGE, help });
	exposition_sample(e, NULL, 0, value);
}

/* OpenMetrics wants "1.0", and others read it. */
static void format_bound(double bound, char out[NUMBER_MAX])
{
	format_number(bound, out);
	if (!strpbrk(out, ".e"))
		strcat(out, ".0");
}

void exposition_tally(struct exposition *e, const struct exposition_label *labels,
		      unsigned count, const struct tally *t, const uint64_t *steps,
		      double scale)
{
	double bounds[TALLY_STEPS_MAX];
	struct exposition_buckets b = { .bounds = bounds,
					.counts = t->counts,
					.sum = (double)t->sum / scale };

	for (; steps[b.count] != UINT64_MAX; b.count++)
		bounds[b.count] = (double)steps[b.count] / scale;
	exposition_histogram(e, labels, count, &b);
}

void exposition_histogram(struct exposition *e, const struct exposition_label *labels,
			  unsigned count, const struct exposition_buckets *b)
{
	uint64_t sum = 0;
	char le[NUMBER_MAX + 2];

	for (unsigned i = 0; i <= b->count; i++) {
		sum += b->counts[i];
		snprintf(le, sizeof(le), "+Inf");
		if (i < b->count)
			format_bound(b->bounds[i], le);
		append_name(e, "_bucket");
		append_labels(e->out, labels, count, le);
		append_end(e, (double)sum);
	}
	append_name(e, "_sum");
	append_labels(e->out, labels, count, NULL);
	append_end(e, b->sum);
	append_name(e, "_count");
	append_labels(e->out, labels, count, NULL);
	append_end(e, (double)sum);
}

void exposition_end(struct exposition *e)
{
	if (e->is_openmetrics)
		buf_append_text(e->out, "# EOF\n");
}
