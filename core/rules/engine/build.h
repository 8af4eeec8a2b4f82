/* build.h: the next generation, made in steps between the turns of the loop.
 *
 * A step loads one file, makes one use, or binds one binding; a turn does as many
 * as fit into BUILD_TURN_NS. Meanwhile the generation in force decides, and
 * exchanges, queues and bindings come and go: a handle that is not yet in the next
 * generation will be put there as it is then, and what changes in one that is
 * there already is done in both. When all is in, the files are read once more; if
 * they have changed since they were loaded, it begins again. */
#ifndef TIDE_RULES_ENGINE_BUILD_H
#define TIDE_RULES_ENGINE_BUILD_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "engine.h"

#define BUILD_TURN_NS 1500000
/* A directory in which something changes all the time is taken as it is. */
#define BUILD_RESTARTS_MAX 5

struct bundle;
struct engine;
struct generation;
struct handle;

struct build {
	bool is_under_way;
	struct bundle *from; /* in the place of the directory; NULL: that */
	enum engine_origin origin;
	bool must_restart;
	bool is_checking;           /* the next step reads all files: a turn of its own */
	struct generation *next;    /* NULL: not begun yet */
	struct generation *dropped; /* by a restart; see build_take_dropped */
	uint64_t serial;   /* handles and bindings remember the one they are in */
	struct handle *at; /* the next one to be put in */
	unsigned restarts;
	struct error failure; /* of a change that was followed; code 0: none */
	/* What it has cost the loop; of the last one, when none is under way. */
	unsigned turns;
	int64_t started_ns, took_ns, worked_ns, longest_ns;
	int64_t longest_cpu_ns; /* of a turn; what other processes do is not in it */
};

/* One is under way from now on; until build_take nobody sees it. */
void build_start(struct engine *e, struct bundle *from, enum engine_origin origin);
/* Work for about `max_ns`. True when it has come to an end, `*status` says which:
 * TIDE_OK, or `err` tells why there is none. */
bool build_turn(struct engine *e, int64_t max_ns, int *status, struct error *err);
/* The generation of a build that has ended, or is given up; may be NULL. */
struct generation *build_take(struct engine *e);
/* The generation that the last turn gave up, to be freed by the caller; may be NULL. */
struct generation *build_take_dropped(struct engine *e);
/* Give it up, if one is under way. */
void build_abort(struct engine *e);

/* Add the tables of the engine to a new state; may raise. */
void build_open_api(lua_State *L, void *engine);

/* A handle goes away; before it is taken out of the list. */
void build_forget(struct engine *e, struct handle *h);

/* The generation in which a change of this handle has to be followed; NULL when
 * there is none. */
struct generation *build_generation_of(const struct handle *h);

#endif
