/* meters.h: the values of tide.gauge and tide.histogram.
 *
 * They are outside of any Lua state and outlive reloads, but not the process. A metric is
 * what the script says that wrote it last, by the newest generation: another type or
 * other buckets begin it anew. Metrics and their series are bounded. When there
 * is no room, those go that the newest generation has not written.
 *
 * The name and the labels of a metric are one text, its series:
 * orders{country="de",kind="new"}. Labels are sorted by name, without a value they are
 * left out, and values are escaped as Prometheus does. So one set of labels has one text.
 * Values come from clients: what is too long is cut, what is not UTF-8 becomes '?'. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

#define METERS_MAX 200        /* names */
#define METERS_BUCKETS_MAX 30 /* of a histogram, without the last, which takes all */

enum meter_type { METER_GAUGE, METER_HISTOGRAM };

/* A metric, as a script names it. */
struct meter_handle {
	enum meter_type type;
	struct slice text; /* with the labels: series.h */
	size_t name_len;   /* of the text: the name */
	uint64_t load;     /* a number that grows with each Lua state */
	const char *file;
	unsigned bucket_count;
	const double *buckets; /* their upper bounds, which grow */
};

struct meters;
struct meters *meters_create(void);
void meters_destroy(struct meters *m);

/* All but meters_get: TIDE_EMISMATCH: the sum is no finite number; or another script of
 * this generation or a newer one has it otherwise. TIDE_ELIMIT: there are too many names.
 */
TIDE_MUST_USE int meters_set(struct meters *m, const struct meter_handle *h, double value,
			     struct error *err);
TIDE_MUST_USE int meters_add(struct meters *m, const struct meter_handle *h, double by,
			     struct error *err);
TIDE_MUST_USE int meters_observe(struct meters *m, const struct meter_handle *h,
				 double value, struct error *err);
/* Of a gauge; 0 without one. */
double meters_get(const struct meters *m, const struct meter_handle *h);

bool meters_has(const struct meters *m, struct slice name);

/* A series of a metric; those of one metric follow each other. */
struct meter_view {
	enum meter_type type;
	struct slice text;
	struct slice name;
	const char *file; /* that wrote it last */
	double value;     /* of a gauge; of a histogram the sum */
	unsigned bucket_count;
	const double *buckets;
	const uint64_t *counts; /* one more than buckets */
};
typedef void (*meters_fn)(void *ctx, const struct meter_view *v);
void meters_each(const struct meters *m, meters_fn fn, void *ctx);

#define SERIES_NAME_MAX 64
#define SERIES_LABELS_MAX 6
#define SERIES_LABEL_MAX 32 /* of the name of a label */
#define SERIES_VALUE_MAX 64 /* bytes of a value that are kept */
#define SERIES_TEXT_MAX 1100

/* Every metric may have so many sets of labels. Further ones are counted together, under
 * the value "other". */
#define SERIES_PER_METRIC 500
/* The counters with labels, and again the lines of gauges and histograms: what is
 * exported costs the event loop some 2 ms at most. */
#define SERIES_IN_ALL 2000

struct series_label {
	struct slice name, value;
};

struct series {
	struct slice name;
	unsigned count;
	struct series_label labels[SERIES_LABELS_MAX];
	char values[SERIES_TEXT_MAX];
};

/* Letters, digits and '_', no digit first. A metric does not end in what Prometheus
 * appends ("_total"); a label is not "le", and does not begin with "__". */
bool series_is_name(struct slice name);
bool series_is_label(struct slice name);

/* Both are such. Sorts the labels. Returns the length of the text. */
size_t series_write(char out[SERIES_TEXT_MAX], struct slice name,
		    struct series_label *labels, unsigned count);
/* The same with the value "other" for each label. */
size_t series_write_other(char out[SERIES_TEXT_MAX], struct slice text);
/* False: it is no such text. */
bool series_read(struct slice text, struct series *out);
