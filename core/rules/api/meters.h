/* meters.h: the values of tide.gauge and tide.histogram.
 *
 * They are outside of any Lua state and outlive reloads, but not the process. A metric is
 * what the script says that wrote it last, by the newest generation: another type or
 * other buckets begin it anew. Metrics and their series are bounded: series.h. When there
 * is no room, those go that the newest generation has not written. */
#pragma once

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

/* What there is: the series of a metric follow each other. */
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
