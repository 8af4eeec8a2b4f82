/* engine_private.h: the engine's inside, for engine.c, index.c and strategy.c.
 *
 * Every handle of the broker (an index, a strategy) has a number, which is that
 * of its use in each generation, and keeps what is needed to make that use
 * again: the script's name, the options, for an index the bindings. */
#ifndef TIDE_RULES_ENGINE_ENGINE_PRIVATE_H
#define TIDE_RULES_ENGINE_ENGINE_PRIVATE_H

#include <sys/queue.h>

#include "build.h"
#include "carry.h"
#include "rules/api/decision_context.h"
#include "rules/api/dry_run.h"
#include "engine.h"
#include "filter.h"
#include "generation.h"
#include "room.h"
#include "watch.h"

/* What a handle of either sort begins with. */
struct handle {
	TAILQ_ENTRY(handle) link;
	struct engine *engine;
	size_t number;
	enum script_kind kind;
	char *name;
	char *user; /* "exchange 'orders'" */
	struct args options;
	uint64_t staged;     /* the serial of the build that has it */
	uint64_t cache_hits; /* decisions that the broker remembered */
};
TAILQ_HEAD(handle_list, handle);

/* Where `to(dest)` puts its argument during a call of index_route. */
struct route_sink {
	struct index *index; /* NULL outside of a route */
	uint32_t *dests;
	size_t count;
	size_t cap;
};

#define ENGINE_ASKER_MAX 320

/* Somebody who waits for the end of a reload. */
struct reload_waiter {
	STAILQ_ENTRY(reload_waiter) link;
	reload_done_fn *on_done;
	void *ctx;
	char asker[ENGINE_ASKER_MAX];
};
STAILQ_HEAD(reload_waiters, reload_waiter);

struct engine {
	uv_loop_t *loop;
	struct engine_config config; /* with copies of the strings */
	struct engine_hooks hooks;
	struct watchdog *watchdog;
	struct watch *watch;
	struct api_tide tide;
	struct shared *shared;
	struct schedule_call *schedule_call; /* the run under way, or NULL */
	struct generation *current;   /* NULL until the first is loaded: engine_open */
	struct generation *former;    /* while its states are carried over; else NULL */
	struct handle *carry_at;      /* the next one to be asked */
	struct filter_set *filters;   /* of the generation in force */
	enum engine_origin origin;    /* of the current one */
	enum engine_origin attempt;   /* of the last one, refused or not */
	uint64_t unread;              /* see unread_warn */
	char asker[ENGINE_ASKER_MAX]; /* of the next one */
	char attempt_by[ENGINE_ASKER_MAX]; /* those of the last one */
	struct bundle *refused;   /* its files if it was refused; NULL: the directory */
	struct bundle *directory; /* as it was loaded last; NULL: never */
	uint64_t epoch;
	uint64_t call_count; /* decisions asked of scripts */
	/* Room for what scripts keep: room.c. */
	uint64_t ending_epoch;   /* the last one that used up its memory */
	size_t fresh_bytes;      /* of the current one when it was loaded */
	uint64_t rests_until_ms; /* it is not asked, its memory being used up */
	uv_idle_t collector;     /* active while it is collected in steps */
	uint64_t collecting;     /* the epoch for which it is */
	int cycles_left;

	struct build build;
	uv_idle_t turn;                  /* active while a build is under way */
	struct reload_waiters waiters;   /* for the build under way */
	struct reload_waiters followers; /* for the one after it */
	bool must_follow;                /* another build comes after this one */
	bool must_build;   /* the next change is one, whatever the files say */
	unsigned retiring; /* generations that a thread frees */
	bool is_closing;
	unsigned open_parts; /* of an engine that is closing */

	struct handle_list handles;
	size_t *free_numbers;
	size_t free_count, free_cap, number_count;
	struct route_sink sink;

	uint64_t refused_count;
	int64_t refused_unix_ms;
	struct error refusal; /* of the last reload; code 0 when it was accepted */

	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

/* Enter the handle in the engine and make its use in the generation in force; on
 * failure the handle is as it was before. */
TIDE_MUST_USE int handle_open(struct handle *h, struct engine *e, enum script_kind kind,
			      struct slice name, const struct args *options,
			      const char *user, struct error *err);
void handle_close(struct handle *h);
/* Make the handle's use in a generation, for an index without its bindings. The
 * error names the user. */
TIDE_MUST_USE int handle_install(struct handle *h, struct generation *g,
				 struct error *err);

static inline struct use *handle_use(const struct handle *h)
{
	return &h->engine->current->uses[h->number];
}

/* Bind the next binding that generation `g` lacks. True when none is left, or at a
 * failure. */
bool index_stage(struct index *x, struct generation *g, uint64_t serial, int *status,
		 struct error *err);

/* Free a generation that nobody uses, on a thread: a large one takes longer than
 * the loop may stand still. */
void engine_retire(struct engine *e, struct generation *g);
/* Adds what is the engine's to a new state. */
void build_open_api(lua_State *L, void *engine);

/* Make known to a new state what the calls need; both may raise. */
void index_open(lua_State *L, struct engine *e);
void strategy_open(lua_State *L);
void schedule_open(lua_State *L, struct engine *e);

/* The members of the status that tell of tide.shared. */
void status_shared(const struct engine *e, struct json *out);

/* A script is asked for a decision. */
struct use_call {
	const struct use *use;
	struct decision_context *context; /* NULL: live */
	lua_CFunction body;
	void *ctx; /* of the body */
};
TIDE_MUST_USE int use_decide(struct engine *e, const struct use_call *c,
			     struct error *err);

#endif
