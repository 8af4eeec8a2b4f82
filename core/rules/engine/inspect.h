/* inspect.h: a rules directory looked over without a broker, for `tidemq check`.
 *
 * Where a broker stops at the first script that does not load, this goes on, and
 * tells of each; then of what loads and is nevertheless hardly meant. */
#ifndef TIDE_RULES_ENGINE_INSPECT_H
#define TIDE_RULES_ENGINE_INSPECT_H

#include <stdbool.h>

#include "base/findings.h"
#include "rules/sandbox/bundle.h"

struct generation;

struct inspection {
	struct findings *findings;
	const char *rules_dir;
	const char *lua_dir;
	/* The files of what loads, and the modules; NULL when not even the
	 * directory can be read. The caller unrefs it. */
	struct bundle *good;
	bool is_complete; /* every script is in it */
};

/* Fill in `good`: load every script, and look at their names and texts. */
void inspect_rules(struct inspection *in);

/* ---- for the engine's own files -------------------------------------------- */

/* Files that look like scripts or modules, and that nothing loads; `g` has what loads.
 * Needs of `in` the findings and the directory. */
void inspect_unread(const struct inspection *in, const struct generation *g);
/* inspect_unread has its findings logged as warnings, unless they are those of the last
 * time, whose hash is in `known`. */
void inspect_warn(const char *about, const char *rules_dir, const struct generation *g,
		  uint64_t *known);
/* Those, and files whose names do not do what they seem to. */
void inspect_names(const struct inspection *in, const struct generation *g);

#endif
