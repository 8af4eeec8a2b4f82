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
