/* engine_status.h: the state of the engine as a document, for RULES status and LIST
 * rules. */
#pragma once

#include "engine.h"

/* An object with the generation, when it was loaded, the last refusal, and for each
 * script its kind, file, hash, calls, errors and times. */
void engine_status(const struct engine *e, struct json *out);

/* The counters of scripts by name, at most 256 of them: members of an object. */
void engine_status_counters(const struct engine *e, struct json *out);
/* Elements of an array: the gauges and histograms of scripts, the first 256. */
void engine_status_metrics(const struct engine *e, struct json *out);
