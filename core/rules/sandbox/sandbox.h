/* sandbox.h: what a script can reach.
 *
 * Each file has an environment of its own, with copies of the safe libraries:
 * what a file does to its globals or to `string` is seen by no other. There is
 * no io, os, debug, package, coroutine, load, dofile, collectgarbage or rawset,
 * no bytecode, no __gc. `require` finds "tide.x" in the framework's directory
 * and any other name in the rules directory, once per generation, and only
 * while files are loaded: a decision never reads a file.
 *
 * All functions here run inside script_enter and may raise. */
#ifndef TIDE_RULES_SANDBOX_SANDBOX_H
#define TIDE_RULES_SANDBOX_SANDBOX_H

#include <lua.h>
#include <stdbool.h>

#include "source.h"

struct bundle;

/* Outlives the state; the strings are the owner's. */
struct sandbox {
	const char *rules_dir;
	const char *lua_dir;
	const struct bundle *from; /* in the place of rules_dir; NULL: files */
	struct bundle *files;      /* notes what was read there; may be NULL */
	bool is_loading;           /* `require` may read files */
	struct source_list
		sources; /* what it has read; scripts are added by their loader */
};

/* Open the libraries in a new state. */
void sandbox_open(lua_State *L, struct sandbox *sandbox);

/* Pop a value: every file loaded from now on has it under the global `name`; a
 * table is copied for each. */
void sandbox_add_global(lua_State *L, const char *name);

/* Push the value that was added under `name`. */
void sandbox_push_global(lua_State *L, const char *name);

/* Push the chunk of `source`, in an environment of its own, and free the source.
 * `name` is what errors call the file. */
void sandbox_load_take(lua_State *L, struct source *source, const char *name);

/* Replace the table on the top by a read-only view of it: an empty table that
 * reads through, in which nothing can be set, by nobody who has it. */
void sandbox_protect(lua_State *L);

#endif
