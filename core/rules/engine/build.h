/* build.h: the next generation, made in steps between the turns of the event loop.
 *
 * A step loads one file, makes one use, or binds one binding. A turn makes as many steps
 * as fit into BUILD_TURN_NS. Meanwhile the active generation decides, and exchanges,
 * queues and bindings come and go. A handle that is not yet in the next generation enters
 * it as it is then. A change of a handle that is already there is made in both. At the
 * end the files are read once more. If they have changed, the build starts again. */
#ifndef TIDE_RULES_ENGINE_BUILD_H
#define TIDE_RULES_ENGINE_BUILD_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "engine.h"

#define BUILD_TURN_NS 1500000
/* Then a directory that changes all the time is taken as it is. */
#define BUILD_RESTARTS_MAX 5

struct bundle;
struct engine;
struct generation;
struct handle;

struct build {
	bool is_under_way;
	struct bundle *from; /* instead of the directory; NULL: the directory */
	enum engine_origin origin;
	bool must_restart;
	bool is_checking;        /* the next step reads all files, in a turn of its own */
	struct generation *next; /* NULL: not begun yet */
	struct generation *dropped; /* by a restart; see build_take_dropped */
	uint64_t serial;            /* handles and bindings keep that of their build */
	struct handle *at;          /* the next one to enter */
	unsigned restarts;
	struct error failure; /* of a change made in both; code 0: none */
	/* What it costs the loop; afterwards, what it has cost. */
	unsigned turns;
	int64_t started_ns, took_ns, worked_ns, longest_ns;
	int64_t longest_cpu_ns; /* of a turn, without the time of other processes */
};

/* Start a build. */
void build_start(struct engine *e, struct bundle *from, enum engine_origin origin);
/* Work for about `max_ns`. True at the end of the build: `*rc` is TIDE_OK, or `err`
 * has the reason of its failure. */
bool build_turn(struct engine *e, int64_t max_ns, int *rc, struct error *err);
/* End the build and take its generation; may be NULL. */
struct generation *build_take(struct engine *e);
/* The generation that the last turn gave up, to be freed by the caller; may be NULL. */
struct generation *build_take_dropped(struct engine *e);
/* Give up the build, if one is under way. */
void build_abort(struct engine *e);

/* Add the tables of the engine to a new state; may raise. */
void build_open_api(lua_State *L, void *engine);

/* A handle goes; call this before it leaves the list. */
void build_forget(struct engine *e, struct handle *h);

/* The generation of the build that has this handle already, so that a change is made
 * there too; NULL for none. */
struct generation *build_generation_of(const struct handle *h);

#endif
