/* api_tide.h: the table `tide` that every script has: hash, now, random, log,
 * duration, and the names of the decisions on a failure. */
#ifndef TIDE_RULES_API_API_TIDE_H
#define TIDE_RULES_API_API_TIDE_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct shared;

/* What the functions of `tide` work on; one per engine, so that the sequence of
 * random numbers goes on through a reload. */
struct api_tide {
	const char *about;     /* what lines of the log begin with */
	struct shared *shared; /* behind tide.shared; see api_shared.h */
	uint64_t random_state;
	bool is_clock_fixed; /* for tests: `now` is then fixed_now_ms */
	int64_t fixed_now_ms;
	/* A rule that logs for each message must not fill the disk. */
	int64_t log_second;
	unsigned log_lines;
};

#define API_TIDE_LOG_LINES_PER_SECOND 50

#define API_TIDE_BURY "bury"
#define API_TIDE_DEAD_LETTER "dead-letter"
#define API_TIDE_DROP "drop"

/* From the system's entropy. */
void api_tide_init(struct api_tide *t);
void api_tide_seed(struct api_tide *t, uint64_t seed);
int64_t api_tide_now_ms(const struct api_tide *t);
/* What tide.now gives in the call under way. */
int64_t api_tide_call_ms(lua_State *L, const struct api_tide *t);

/* Make `tide` and `print` known to the sandbox of the state; after
 * sandbox_open. May raise. */
void api_tide_open(lua_State *L, struct api_tide *t);

#endif
