/* redis_script.h: the Lua scripts that run inside Redis, as texts.
 *
 * They are sent with EVAL each time: a kilobyte beside the hundreds of
 * rows that one moves, and there is no NOSCRIPT to answer by asking again out
 * of order. Redis compiles a text once. */
#ifndef TIDE_STORE_REDIS_SCRIPT_H
#define TIDE_STORE_REDIS_SCRIPT_H

#include "base/slice.h"

/* KEYS: the set, msg, tries. ARGV: first index, last index, max_bytes ("0":
 * bodies are not wanted).
 *
 * Returns { members and scores, bodies, tries }: the first a flat list, the
 * others lists of lists, chunk by chunk, with nil where there is none; fewer
 * bodies than members when max_bytes is reached. */
extern const struct slice redis_script_read;

/* KEYS: the set, msg, tries, expiry. ARGV: ids. Removes those that are members
 * of the set still, with all that belongs to them; returns how many. */
extern const struct slice redis_script_remove;

/* KEYS: dedupe. ARGV: the last score, how many at most. Returns how many were removed.
 */
extern const struct slice redis_script_trim;

#endif
