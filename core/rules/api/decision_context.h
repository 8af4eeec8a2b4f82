/* decision_context.h: the conditions under which a script decides.
 *
 * It is an argument of each engine function that asks a script for a decision. NULL
 * stands for those of a live publish: the engine's clock, random numbers and
 * tide.shared, a message with its payload, and a decision that counts. The functions
 * that scripts call find it for the time of the call, and no longer. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "rules/sandbox/script.h"

#define DRY_RUN_SCRIPTS_MAX 64

struct shared;

/* The cost of the calls of a dry run, by script. Those beyond the limit are left out. */
struct dry_run {
	struct dry_run_script {
		const char *file; /* the generation's */
		uint64_t calls;
		uint64_t time_ns;
	} scripts[DRY_RUN_SCRIPTS_MAX];
	size_t count;
};

struct decision_context {
	int64_t now_ms; /* what tide.now gives; 0: the engine's clock */
	/* tide.random goes on from random_state, and the engine's sequence stays. */
	bool has_random;
	uint64_t random_state;
	struct shared *shared; /* behind tide.shared; NULL: the engine's */
	/* A dry run, for EXPLAIN: the same scripts are called, and nothing of it remains.
	 * The calls are not counted in RULES status. What a strategy writes into its
	 * `state` is lost. Functions that change anything (a counter, a bucket, a shared
	 * table) only compute. A script asks tide.is_dry_run(). */
	bool is_dry;
	struct dry_run *costs; /* may be NULL */
	/* Out: the lines of the last call, for who asks right behind it. May be NULL. */
	struct line_trace *trace;
	/* Out: why a payload that a script read as JSON was not read whole, of the first
	 * such; code TIDE_OK: all were. May be NULL. */
	struct error *unread;
	bool is_uncounted; /* by the figures and the breaker of the script */
	/* The message has lost a payload of this size. A script that reads it is stopped,
	 * and its decision means nothing, even if it catches the error. */
	size_t absent_bytes;
	bool was_absent_read; /* out */
};

/* For functions that Lua calls: that of the call under way; NULL outside of a decision.
 */
static inline struct decision_context *decision_context_of(lua_State *L)
{
	return script_state_of(L)->context;
}

/* The call under way must change nothing. */
static inline bool decision_context_is_dry(lua_State *L)
{
	const struct decision_context *c = decision_context_of(L);

	return c && c->is_dry;
}

void dry_run_count(struct dry_run *run, const char *file, uint64_t time_ns);

/* Push what a strategy gets as its state: the value of the reference, or in a
 * dry run a table that looks like it, and whose changes nobody else sees. */
void dry_run_push_state(lua_State *L, int reference);

#define LINE_TRACE_LINES_MAX 1024
#define LINE_TRACE_STEPS_MAX 5000

struct line_trace {
	const char *file;
	/* The last one that ran, other than the `end` of a function: what the call
	 * decided, it decided here. 0: none, or the trace has ended itself. */
	int line;
	unsigned steps;
	uint64_t lines[LINE_TRACE_LINES_MAX / 64]; /* a bit for each that ran */
};

/* Around a call into the state whose decision_context has the trace. It is of this call
 * alone then. */
void line_trace_begin(struct line_trace *t, lua_State *L, const char *file);
void line_trace_end(lua_State *L);

/* The first run of lines that ran, from *line on: *line and *last receive its ends. Lines
 * beyond LINE_TRACE_LINES_MAX are not known. */
bool line_trace_next(const struct line_trace *t, int *line, int *last);
