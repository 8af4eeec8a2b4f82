/* script.h: the Lua state of a generation, and the one door into it.
 *
 * Everything that a state does (open libraries, load a file, bind, decide) is a
 * C function that script_enter calls inside the only lua_pcall of the program.
 * There it may allocate, convert and call scripts as it likes: whatever is
 * raised, also a refused allocation, comes out as one line with file and line
 * number. Outside of it nothing that may allocate in the state is allowed,
 * since an error there has no handler.
 *
 * Memory: the state's allocator counts, and refuses what goes over the ceiling; a
 * script may catch that and go on with less. The collector is paced by how near that
 * is; room.h says why.
 * Time: the watchdog's budget holds for each call. This error, and that of any other
 * budget of work (script_fail), nothing in the script catches. */
#ifndef TIDE_RULES_SANDBOX_SCRIPT_H
#define TIDE_RULES_SANDBOX_SCRIPT_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "breaker.h"
#include "cost.h"
#include "watchdog.h"

#define SCRIPT_PLACE_MAX 128

/* The longest text in a state: a single instruction compares or hashes a whole
 * text, and nothing interrupts an instruction. */
#define SCRIPT_STRING_MAX ((size_t)16 << 20)

struct decision_context; /* of rules/api, for what scripts call there */

struct script_state {
	lua_State *L;
	struct watchdog *watchdog;
	size_t memory_bytes;
	size_t memory_max_bytes;
	/* Odd inside a call. What is good for one call only remembers it. */
	uint64_t serial;
	const char *file; /* the script that the call under way is for */
	/* What errors that no line of Lua raises are said to be at; "" when unset. */
	char place[SCRIPT_PLACE_MAX];
	/* While memory_bytes is within `pace_span` above `pace_low`, the collector's pace
	 * is right. */
	size_t pace_low, pace_span;
	size_t grown_bytes; /* by the allocations of the call under way */
	bool was_refused;   /* an allocation of the call under way, or of the last */
	/* What scripts keep leaves no room: calls will go on failing in this state. */
	bool is_exhausted;
	size_t collected_bytes; /* what was left by the last whole collection; 0: none */
	size_t full_bytes;      /* at which something new found no room; 0: none */
	struct decision_context *context; /* of the call under way; may be NULL */
	/* Where the last allocation was refused: Lua's own error does not say. */
	char refused_at[SCRIPT_PLACE_MAX];
	bool was_string; /* it was for a text over SCRIPT_STRING_MAX */
	/* A budget of the call under way is used up: the error that it ends with,
	 * whatever catches it in between; "" when none is. */
	char fault[ERROR_TEXT_MAX];
};

/* What a script has cost; kept by whom it is counted for. */
struct script_stats {
	uint64_t calls; /* decisions alone: neither loading nor binding */
	uint64_t errors;
	uint64_t overruns; /* of the errors, those of the time budget */
	uint64_t rejected; /* messages that a filter refused; no errors */
	uint64_t time_ns;  /* of the decisions */
	uint64_t skipped;  /* decisions that the open circuit failed at once */
	/* Decisions that the broker remembered, of uses that are gone. */
	uint64_t cache_hits;
	struct cost cost;
	struct breaker breaker;
	int64_t last_error_unix_ms;
	char last_error[ERROR_TEXT_MAX];
};

struct script_call {
	const char *file;                 /* named in errors that have no place */
	struct script_stats *stats;       /* may be NULL */
	bool is_decision;                 /* counted and timed */
	struct decision_context *context; /* for what scripts call; may be NULL */
	lua_CFunction body; /* called with `ctx` as a light userdata; may raise */
	void *ctx;
};

/* TIDE_ELIMIT when not even an empty state fits under the ceiling. */
TIDE_MUST_USE int script_state_init(struct script_state *s, struct watchdog *watchdog,
				    size_t memory_max_bytes);
void script_state_deinit(struct script_state *s);

/* A step of the collector, below a millisecond. True at the end of a cycle. */
bool script_collect_step(struct script_state *s);

/* The state that `L` belongs to, for functions that Lua calls. */
static inline struct script_state *script_state_of(lua_State *L)
{
	return *(struct script_state **)lua_getextraspace(L);
}

int script_raise(lua_State *L);

/* Raise the error of a used-up budget again, of time or another, if the call under
 * way has one: for C functions that work long, are called by other C functions, or
 * catch errors. Costs two loads. */
static inline void script_check(lua_State *L)
{
	struct script_state *s = script_state_of(L);
	if (s->fault[0] || watchdog_has_fired(s->watchdog))
		script_raise(L);
}

/* End the call under way with this error, which no pcall catches. */
int script_fail(lua_State *L, const char *format, ...);

/* For the rest of the call under way, errors of ours are at this line. */
void script_set_place(struct script_state *s, const char *file, int line);

/* The door. TIDE_ERULE with one line in `err` when the body, or a script that
 * it called, raised an error, ran too long or asked for too much memory. */
TIDE_MUST_USE int script_enter(struct script_state *s, const struct script_call *call,
			       struct error *err);

#endif
