/* figures.h: what the calls of each script have cost, over the generations.
 *
 * A rule counts its own calls, in its generation. What the script of that name has cost
 * in the generations before, since the start of the broker, is kept beside them. */
#pragma once

#include "rule.h"

struct engine;
struct generation;

/* The figures of the active generation's rule, of its own, or since the start. Cache hits
 * are those of the last figures_count_hits, which goes through all handles. */
void figures_count_hits(const struct engine *e);
void figures_of_generation(const struct rule *rule, struct script_stats *out);
void figures_since_start(const struct rule *rule, struct script_stats *out);

/* A generation has become active. `former` (may be NULL) was before. Circuits start
 * closed. */
void figures_begin(struct engine *e, const struct generation *former);
void figures_free(struct engine *e);
