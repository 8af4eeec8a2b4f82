/* api_tide.h: the table `tide` that every script has.
 *
 * tide.shared, tide.counter and tide.bucket use the one dictionary of the engine
 * (shared.h), tide.gauge and tide.histogram its meters (meters.h). A bucket is the time
 * at which it is full again (GCRA), and expires then. While files are loaded a change is
 * an error: the load may fail. */
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/args.h"
#include "base/error.h"
#include "host/log.h"
#include "host/zones.h"
#include "queue_facts.h"
#include "secrets.h"

/* tide.check_option(kind, name, value): may a policy set this option?
 *
 * @param kind  "queue", "topic" or "exchange"
 * @return      TIDE_OK; or negative, and `err` has a sentence */
typedef int api_option_fn(const char *kind, const struct arg *option, struct error *err);

/* The settings of a broker, for the processes that it starts. */
#define API_SETTING_VARIABLE "TIDEMQ_RULES_SET"

struct api_tide;

/* Userdata that functions of `tide` make: a bucket, a counter. The function that makes
 * one, and the methods, have the same upvalues: 1 the api_tide, 2 the metatable. All
 * functions may raise. */
struct api_object {
	const char *type;     /* also the function's name in `tide` */
	lua_CFunction create; /* that function */
	const luaL_Reg *methods;
};

/* `tide` is on the top. */
void api_object_add(lua_State *L, struct api_tide *t, const struct api_object *o);

/* For `create`: the userdata on the top is one. */
void api_object_make(lua_State *L);
/* For a method: what it was called on. */
void *api_object_check(lua_State *L);

#define API_USE_NAME_MAX 64

/* tide.use(name, settings): what a file returns that is another script of its folder,
 * with settings of its own. rule.c loads it. */
struct api_use {
	char name[API_USE_NAME_MAX + 1]; /* letters, digits, '_' and '-' */
	int line;                        /* where it was called */
};

/* NULL: the value on the top is something else. */
const struct api_use *api_use_at_top(lua_State *L);
/* Push the table of its settings. */
void api_use_push_settings(lua_State *L);

struct meters;
struct shared;

/* The state of the functions of `tide`: one per engine, which outlives reloads. */
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
/* The value of tide.now in the call under way. */
int64_t api_tide_call_ms(lua_State *L, const struct api_tide *t);

/* Make `tide` and `print` known to the sandbox of the state, after sandbox_open. May
 * raise. */
void api_tide_open(lua_State *L, struct api_tide *t);
/* Add `tide` with nothing but now and duration: it changes nothing, and shows nothing
 * that is kept. */
void api_tide_open_clock(lua_State *L, struct api_tide *t);
/* A part of api_tide_open: tide.shared, tide.bucket and the metrics. `tide` is on the
 * top. */
void api_shared_add(lua_State *L, struct api_tide *t);
