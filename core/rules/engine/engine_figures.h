/* engine_figures.h: numbers of the rules and of each script, for /metrics. Nothing here
 * goes through the uses of scripts, of which there may be very many. */
#pragma once

#include "engine.h"

struct engine_figures {
	uint64_t generation, hash;
	const char *origin;
	int64_t loaded_unix_ms;
	uint64_t refused; /* attempts to load others */
	bool is_refused;  /* the last attempt was */
	size_t memory_bytes, memory_max_bytes;
	size_t shared_entries, shared_entries_max; /* of tide.shared */
	size_t shared_bytes, shared_bytes_max;
};

void engine_figures_read(const struct engine *e, struct engine_figures *out);

/* Of a script of the active generation, since the start of the broker. */
struct engine_script {
	const char *kind, *name;
	uint64_t calls, errors, overruns, rejected, skipped;
	uint64_t time_ns, longest_ns;
	size_t memory_bytes; /* its part of the scripts' memory */
	unsigned open_circuits;
};

size_t engine_figures_count_scripts(const struct engine *e);
/* @param number  below that */
void engine_figures_read_script(const struct engine *e, size_t number,
				struct engine_script *out);

/* The meters of scripts: tide.counter, tide.gauge, tide.histogram. */
enum engine_metric_type { ENGINE_COUNTER, ENGINE_GAUGE, ENGINE_HISTOGRAM };
struct engine_metric {
	enum engine_metric_type type;
	struct slice text; /* the name, perhaps with labels: meters.h */
	/* The name is none of meters.h, or that of a gauge or histogram too. */
	bool is_plain;
	double value; /* of a histogram the sum */
	unsigned bucket_count;
	const double *buckets;  /* upper bounds */
	const uint64_t *counts; /* one more */
	const char *file;       /* the script; NULL: not known */
};
/* Everything is good for the call. Of plain counters the first 256 are told. */
typedef void (*engine_metric_fn)(void *ctx, const struct engine_metric *m);
void engine_figures_each_metric(const struct engine *e, engine_metric_fn tell, void *ctx);
/* The script's `doc`; NULL: it has none, or there is no such script. */
const char *engine_figures_doc(const struct engine *e, const char *file);
