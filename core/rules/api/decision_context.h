/* decision_context.h: the conditions under which a script decides.
 *
 * It is an argument of each engine function that asks a script for a decision. NULL
 * stands for those of a live publish: the engine's clock, random numbers and
 * tide.shared, a message with its payload, and a decision that counts. The functions
 * that scripts call find it for the time of the call, and no longer. */
#pragma once

#include "rules/sandbox/script.h"

struct dry_run;
struct shared;

struct decision_context {
	int64_t now_ms; /* what tide.now gives; 0: the engine's clock */
	/* tide.random goes on from random_state, and the engine's sequence stays. */
	bool has_random;
	uint64_t random_state;
	struct shared *shared; /* behind tide.shared; NULL: the engine's */
	bool is_dry;           /* a dry run: see dry_run.h */
	struct dry_run *costs; /* of the scripts in a dry run; may be NULL */
	bool is_uncounted;     /* by the figures and the breaker of the script */
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
