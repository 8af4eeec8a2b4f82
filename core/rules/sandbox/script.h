/* script.h: the Lua state of a generation, and the one door into it.
 *
 * Everything that happens in a state (open libraries, load a file, bind, decide) is a C
 * function that script_enter calls inside the only lua_pcall of the program. It may
 * allocate, convert and call scripts. Whatever is raised, a refused allocation too, ends
 * as one line with file and line number. Outside of the door nothing may allocate in the
 * state: an error there has no handler.
 *
 * Memory: the allocator counts, for each account, and refuses what exceeds the room of
 * the account that is charged. A script may catch that and continue with less. The pace
 * of the collector depends on how near the ceiling is; room.c says why. Time: the
 * watchdog's budget holds for each call. No script can catch its error, nor that of
 * another budget of work (script_fail). */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "account.h"
#include "base/error.h"
#include "cost.h"
#include "hints.h"
#include "watchdog.h"

#define SCRIPT_PLACE_MAX 128
#define SCRIPT_MISSING_MAX 33
#define SCRIPT_TRACEBACK_MAX 1024
#define SCRIPT_VIEWS_MAX 16
#define SCRIPT_LONG_NS 1000000
#define SCRIPT_RECENT_FILE_MAX 64

/* The longest text in a state. One instruction compares or hashes a whole text, and
 * nothing interrupts an instruction. */
#define SCRIPT_STRING_MAX ((size_t)16 << 20)

struct decision_context; /* of rules/api, for what scripts call there */
struct documents;        /* the same */

/* References to what api/view.c has of a type. */
struct script_view {
	int metatable, kept;
};

/* The time of the decisions since the last question. */
struct script_recent {
	uint64_t sum_ns;
	/* The longest, if it was longer than SCRIPT_LONG_NS, and its file. */
	uint64_t longest_ns;
	char longest[SCRIPT_RECENT_FILE_MAX];
};

struct script_state {
	lua_State *L;
	struct watchdog *watchdog;
	uint64_t number; /* of its owner's states: the newest has the highest */
	size_t memory_bytes;
	size_t memory_max_bytes;
	struct account own;       /* what is of no script */
	struct account *accounts; /* uthash */
	struct account *account;  /* of the call under way */
	const void *stack;        /* the block that L has its stack in */
	struct rehash rehash;     /* of large tables */
	/* Odd inside a call. What expires with the call keeps it to compare. */
	uint64_t serial;
	bool is_loading;   /* a file: `require` may read others */
	bool is_pure;      /* the call under way must look at the routing key alone */
	const char *file;  /* the script that the call under way is for */
	const char *model; /* the file of its functions; NULL: its own */
	/* The place of errors that no line of Lua raises; "" when unset. */
	char place[SCRIPT_PLACE_MAX];
	/* While memory_bytes is within `pace_span` above `pace_low`, the collector's pace
	 * is right. */
	size_t pace_low, pace_span;
	size_t grown_bytes; /* by the allocations of the call under way */
	bool was_refused;   /* an allocation of the call under way, or of the last */
	bool is_exhausted;  /* the account of a call was, which the next will find too */
	size_t collected_bytes; /* what was left by the last whole collection; 0: none */
	struct decision_context *context; /* of the call under way; may be NULL */
	struct documents *documents;      /* the owner's, for all calls */
	/* Where an allocation was refused last: Lua's own error does not say. */
	char refused_at[SCRIPT_PLACE_MAX];
	bool was_string; /* it was for a text over SCRIPT_STRING_MAX */
	/* The error of the budget that this call has used up. It counts even if the
	 * script catches it. "": no budget is used up. */
	char fault[ERROR_TEXT_MAX];
	/* Texts that the errors of a call hide: the owner's list, which may be NULL,
	 * and the password that the call under way is about. */
	const struct hidden *hidden;
	struct slice password;
	/* The last field that a library did not have: "math", "random" (hints.h). */
	const char *missing_owner; /* NULL: none in this call */
	char missing[SCRIPT_MISSING_MAX];
	/* The stack of the last error, a line for each function; "" for none. */
	char traceback[SCRIPT_TRACEBACK_MAX];
	struct slice vhost; /* of the decision under way; data NULL: there is none */
	int64_t ended_ns;   /* of the last decision that was counted */
	struct script_recent recent;
	struct script_view views[SCRIPT_VIEWS_MAX];
};

/* The cost of the calls of a script. */
struct script_stats {
	uint64_t calls; /* decisions alone: neither loading nor binding */
	uint64_t errors;
	uint64_t overruns; /* errors because the time budget was used up */
	uint64_t rejected; /* messages that a filter refused; not counted as errors */
	uint64_t time_ns;  /* of the decisions */
	uint64_t skipped;  /* decisions that the open circuit failed at once */
	/* Decisions from the broker's cache, of uses that are gone. */
	uint64_t cache_hits;
	struct cost cost;
	struct minute minute; /* of the last minute, over all generations */
	int64_t last_error_unix_ms;
	char last_error[ERROR_TEXT_MAX];
	char last_traceback[SCRIPT_TRACEBACK_MAX];
};

struct script_call {
	const char *file;           /* named in errors that have no place */
	const char *model;          /* the file of its functions; NULL: its own */
	struct script_stats *stats; /* may be NULL */
	struct slice vhost;         /* for which the script is called; may be empty */
	struct account *account;    /* NULL: that of the file and vhost */
	bool is_decision;           /* counted and timed */
	/* The call follows another decision directly: its time begins when that decision
	 * ended. */
	bool is_next;
	bool is_pure;                     /* its answer will be remembered by the key */
	struct decision_context *context; /* for what scripts call; may be NULL */
	struct slice password;            /* that its errors must not show; or none */
	lua_CFunction body; /* called with `ctx` as a light userdata; may raise */
	void *ctx;
};

/* The hook of a watchdog for states of this kind. */
void script_on_overrun(lua_State *L, lua_Debug *where);

/* TIDE_ELIMIT: not even an empty state fits under the ceiling. */
TIDE_MUST_USE int script_state_init(struct script_state *s, struct watchdog *watchdog,
				    size_t memory_max_bytes);
void script_state_deinit(struct script_state *s);

/* The state that `L` belongs to, for functions that Lua calls. */
static inline struct script_state *script_state_of(lua_State *L)
{
	return *(struct script_state **)lua_getextraspace(L);
}

/* Has the last call used up a budget of time or work, or found no memory? */
static inline bool script_was_costly(const struct script_state *s)
{
	return s->fault[0] || s->was_refused;
}

/* Does the text have something in it that must not be shown? */
static inline bool script_hides(const struct script_state *s, struct slice text)
{
	return hidden_is_shown(s->password, text) || hidden_is_in(s->hidden, text);
}

int script_raise(lua_State *L);

/* Raise the error of a used-up budget again, if the call under way has one. For C
 * functions that work long, are called by other C functions, or catch errors. Costs two
 * loads. */
static inline void script_check(lua_State *L)
{
	struct script_state *s = script_state_of(L);
	if (s->fault[0] || watchdog_has_fired(s->watchdog))
		script_raise(L);
}

/* End the call under way with this error. No pcall catches it. */
int script_fail(lua_State *L, const char *format, ...);

/* A script whose answer is remembered by the routing key looks at `what` else: end its
 * call, whatever catches errors. For functions that scripts call. */
static inline void script_check_pure(lua_State *L, const char *what)
{
	if (script_state_of(L)->is_pure)
		script_fail(L,
			    "a pure script may look at msg.key and msg.exchange alone, "
			    "not at %s: its decision is remembered by the key. Remove "
			    "`pure`",
			    what);
}

/* The place of errors from C, for the rest of the call under way. */
void script_set_place(struct script_state *s, const char *file, int line);

/* The door. TIDE_ERULE with one line in `err`: the body, or a script that it called,
 * raised an error, ran too long or asked for too much memory. */
TIDE_MUST_USE int script_enter(struct script_state *s, const struct script_call *call,
			       struct error *err);
