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
	size_t memory_bytes; /* what it holds of that of all scripts */
	unsigned open_circuits;
};

size_t engine_figures_count_scripts(const struct engine *e);
/* @param number  below that */
void engine_figures_read_script(const struct engine *e, size_t number,
				struct engine_script *out);

/* Each counter of scripts. */
typedef void (*engine_counter_fn)(void *ctx, struct slice name, double value);
void engine_figures_each_counter(const struct engine *e, engine_counter_fn tell,
				 void *ctx);
