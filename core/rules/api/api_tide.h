/* api_tide.h: the table `tide` that every script has.
 *
 * tide.shared, tide.counter and tide.bucket use the one dictionary of the engine
 * (shared.h), tide.gauge and tide.histogram its meters (meters.h). A bucket is the time
 * at which it is full again (GCRA), and expires then. While files are loaded a change is
 * an error: the load may fail. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/log.h"
#include "host/zones.h"
#include "api_option.h"
#include "queue_facts.h"
#include "secrets.h"

struct meters;
struct shared;

/* What the functions of `tide` work on: one per engine, which outlives reloads. */
struct api_tide {
	const char *about;     /* what lines of the log begin with */
	struct shared *shared; /* behind tide.shared, counters and buckets */
	struct meters *meters; /* behind gauges and histograms */
	uint64_t states;       /* Lua states that were opened */
	uint64_t random_state;
	bool is_clock_fixed; /* for tests: `now` is then fixed_now_ms */
	int64_t fixed_now_ms;
	/* A rule that logs for each message must not fill the disk. */
	int64_t log_second;
	unsigned log_lines;
	/* Told each line of a script that the log has, or would have; NULL: nobody. */
	void (*on_line)(void *ctx, enum log_level level, const char *text);
	void *on_line_ctx;
	struct zones zones;          /* behind tide.time, and of schedules */
	struct secrets secrets;      /* behind tide.secret */
	struct args settings;        /* behind tide.setting */
	struct queue_facts queues;   /* behind tide.queue */
	api_option_fn *check_option; /* behind tide.check_option; may be NULL */
};

#define API_TIDE_LOG_LINES_PER_SECOND 50

#define API_TIDE_BURY "bury"
#define API_TIDE_DEAD_LETTER "dead-letter"
#define API_TIDE_DROP "drop"

int64_t api_tide_now_ms(const struct api_tide *t);
/* What tide.now gives in the call under way. */
int64_t api_tide_call_ms(lua_State *L, const struct api_tide *t);

/* Make `tide` and `print` known to the sandbox of the state, after sandbox_open. May
 * raise. */
void api_tide_open(lua_State *L, struct api_tide *t);
/* Parts of api_tide_open: tide.shared and tide.bucket; tide.counter, tide.gauge and
 * tide.histogram. `tide` is on the top. */
void api_shared_add(lua_State *L, struct api_tide *t);
void api_metrics_add(lua_State *L, struct api_tide *t);
