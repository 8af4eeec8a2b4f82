/* simulate_retry.h: the timetable of a retry script's attempts, for RULES simulate.
 *
 * A message that fails each time passes through the active script, on a clock of its own.
 * The script's counters, random numbers and tide.shared stay as they are. */
#pragma once

#include "rules/engine/engine.h"

struct simulate_spec {
	struct slice name; /* of the retry script */
	const struct args *options;
	const char *reason;      /* "nack", "timeout" or "gone" */
	unsigned failures_max;   /* where it stops if the script does not */
	uint32_t delivery_limit; /* as a queue has it; 0 = none */
	int64_t held_ms;         /* between a delivery and its failure */
};

/* Write the document, an object. TIDE_ENOTFOUND and TIDE_EMISMATCH as strategy_create;
 * `out` is then unchanged. A failing script is part of the document. Ends early when the
 * calls have taken 100 ms together. */
TIDE_MUST_USE int simulate_retry(struct engine *e, const struct simulate_spec *spec,
				 struct json *out, struct error *err);
