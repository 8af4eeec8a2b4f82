/* engine_status.h: the state of the engine as a document, for RULES status and LIST
 * rules. */
#pragma once

#include "engine.h"

/* An object with the generation, when it was loaded, the last refusal, and for each
 * script its kind, file, hash, calls, errors and times. */
void engine_status(const struct engine *e, struct json *out);

/* An array of the same objects for the scripts of a name: "topic", or with its kind,
 * "routing/topic".
 *
 * @param has_source  with `source`, the text of each as it was loaded
 * @return            TIDE_ENOTFOUND: none has it; `out` is unchanged */
TIDE_MUST_USE int engine_status_scripts(const struct engine *e, struct slice name,
					bool has_source, struct json *out,
					struct error *err);

/* The texts of the shipped scripts that the generation has read: members of an object. */
void engine_status_shipped(const struct engine *e, struct json *out);

/* The files that are forgotten (rule_is_forgotten): "filter/10-x.lua, deliver/a.lua". */
void engine_status_forgotten(const struct engine *e, struct buf *out);

/* The counters of scripts by name, at most 256 of them: members of an object. */
void engine_status_counters(const struct engine *e, struct json *out);
/* Elements of an array: the gauges and histograms of scripts, the first 256. */
void engine_status_metrics(const struct engine *e, struct json *out);

/* Numbers of the rules and of each script, for /metrics. None of these functions goes
 * through the uses of scripts, of which there may be very many. */
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
