/* engine.h: the rule engine as the broker sees it.
 *
 * The engine holds the active generation: a Lua state with every script of the rules
 * directory. A reload builds a second generation and checks it against everything in
 * use: each strategy, each index with its bindings. If all of it works, the new
 * generation replaces the first one between two calls. The broker does not see
 * generations: a strategy or an index outlives them.
 *
 *   engine.h        life cycle, the active generation
 *   reload.h        replace it
 *   index.h         the bindings of an exchange
 *   strategy.h      sharding, priority and retry of a queue
 *   filter.h        the filters of a publish
 *   schedule.h      the schedules
 *   auth.h          logins and permissions
 *   engine_status.h what RULES status shows
 *
 * One thread, that of the loop. A watchdog bounds the time of a call into a script, the
 * allocator bounds its memory. A failing script costs its caller an error with file,
 * line and message (TIDE_ERULE), and nothing else. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/args.h"
#include "base/error.h"
#include "base/json.h"
#include "base/msg.h"
#include "rules/api/api_tide.h"
#include "rules/api/queue_facts.h"
#include "script_kind.h"

struct script_recent;
struct bundle;
struct decision_context;
struct engine;
struct shared;

/* Where a generation comes from, and why the engine loaded it. */
enum engine_origin {
	ENGINE_START,     /* the directory, at the start */
	ENGINE_LAST_GOOD, /* at the start, instead of a broken directory */
	ENGINE_FILES,     /* the directory, which changed */
	ENGINE_RELOAD,    /* the directory, because somebody asked */
	ENGINE_ROLLBACK,  /* an earlier generation */
	ENGINE_PROMOTE,   /* the rules of the shadow */
	ENGINE_CELL,      /* those that the owner of another cell has made active */
};
const char *engine_origin_name(enum engine_origin origin); /* "start", ... */

/* 100,000 bindings take about 70 MB. */
#define ENGINE_MEMORY_DEFAULT ((size_t)256 << 20)

struct engine_config {
	const char *rules_dir;   /* scanned and watched; must exist */
	const char *lua_dir;     /* the framework: `require "tide.x"` finds it */
	size_t memory_max_bytes; /* of a generation */
	int64_t call_budget_ms;  /* of one call into a script */
	int64_t debounce_ms; /* a reload starts after so long without further changes */
	bool watch;          /* reload when files change */
	/* The first generation: what has been read of the directory, or with `refusal`
	 * the last good one instead of a directory that was refused. NULL: the directory
	 * is read. */
	struct bundle *files;
	const struct error *refusal;
	int64_t breaker_rest_ms; /* a failing script is not called; 0: the default */
	bool has_no_breaker;     /* a failing script is called each time */
	/* How log lines begin when these are not the active rules; copied. NULL:
	 * "rules". */
	const char *about;
	size_t shared_entries_max; /* of tide.shared; 0: the default */
	size_t shared_bytes_max;
	/* Behind tide.secret; see secrets.h. All are copied; NULL: there is none. */
	const char *secrets_dir;
	const struct args *secrets;
	bool has_stand_in_secrets;
	const struct args *settings; /* behind tide.setting; copied; NULL: none */
	api_option_fn *check_option; /* behind tide.check_option; NULL: all may be set */
};

struct engine_hooks {
	void *ctx;
	/* A reload ended: TIDE_OK, or why the active generation stays. Called before
	 * whoever asked for it is told. Not called for engine_create's generation. */
	void (*on_reload)(void *ctx, const struct error *result);
	/* Adds the broker's members to the document of engine_status; may be NULL. */
	void (*add_status)(void *ctx, struct json *out);
	/* Something happened in the directory. The owner calls reload_follow,
	 * reload_unchanged or reload_refuse, now or later. NULL: the engine does. */
	void (*on_change)(void *ctx);
	/* The facts for tide.queue; without `find` there are no queues. */
	struct queue_facts queues;
};

/* The subject of a script's decision. */
struct script_question {
	const struct msg *msg;
	struct decision_context *context; /* NULL: that of a live publish */
};

/* Load the first generation. Broken rules fail the start, with file and line. */
TIDE_MUST_USE int engine_create(struct engine **out, uv_loop_t *loop,
				const struct engine_config *config,
				const struct engine_hooks *hooks, struct error *err);
/* The same without a generation, for a loop that must not block. The first
 * reload_start loads it. Before, only strategies and indexes may be created and bound:
 * no script is asked, and that reload reports what is wrong with them. */
TIDE_MUST_USE int engine_open(struct engine **out, uv_loop_t *loop,
			      const struct engine_config *config,
			      const struct engine_hooks *hooks, struct error *err);
/* Stop watching, free everything, then call on_closed. Whoever waits for a reload is
 * told TIDE_ESHUTDOWN within the call. Destroy strategies and indexes before. */
void engine_close(struct engine *e, void (*on_closed)(void *ctx), void *ctx);

/* The active generation: its files (borrowed), their hash, its origin. */
struct bundle *engine_files(const struct engine *e);
uint64_t engine_hash(const struct engine *e);
enum engine_origin engine_origin(const struct engine *e);

/* Changes with every generation, from 1: a cached decision is good for one epoch. */
uint64_t engine_epoch(const struct engine *e);

/* Is this the error of a call that was not made, because of an open circuit? */
bool engine_is_not_called(const char *error_text);

/* How many scripts with a match are active, by kind: an array that lasts as long as the
 * engine, for whoever asks often. */
const unsigned *engine_hook_counts(const struct engine *e);

/* How many decisions scripts were asked for. */
const uint64_t *engine_call_count(const struct engine *e);

/* The time of the decisions since the last call of this function: script.h. */
void engine_take_recent(struct engine *e, struct script_recent *out);

/* The values of tide.shared, tide.counter and tide.bucket: shared.h. */
struct shared *engine_shared(const struct engine *e);

/* The value of tide.now. */
int64_t engine_now_ms(const struct engine *e);

/* The state of tide.random. */
uint64_t engine_random_state(const struct engine *e);
