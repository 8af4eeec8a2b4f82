/* sandbox.h: what a script can reach.
 *
 * Each file has an environment of its own, with copies of the safe libraries. What a file
 * does to its globals or to `string`, no other file sees. There is no io, os, debug,
 * package, coroutine, dofile or collectgarbage, no bytecode and no __gc. `load` takes
 * text alone (compile.h). `getmetatable` and `rawset` keep a file from changing what is
 * another file's (safe_lib.c).
 *
 * `require` finds "tide.x" in the framework's directory and other names in the rules
 * directory: "a.b" is a/b.lua, or else a/b/init.lua. It loads a module once per
 * generation, and only while files are loaded: a decision never reads a file. What it
 * gives is read-only at all depths (read_only.h). Modules that require each other nest as
 * deep as Lua's C calls may (LUAI_MAXCCALLS, 200).
 *
 * All functions run inside script_enter and may raise. */
#pragma once

#include <lua.h>
#include <stdbool.h>

#include "source.h"

struct bundle;
struct bundle_file;

/* Outlives the state; the strings are the owner's. */
struct sandbox {
	const char *rules_dir;
	const char *lua_dir;
	const struct bundle *from; /* instead of rules_dir; NULL: the directory */
	struct bundle *files;      /* receives what is read of it; may be NULL */
	struct bundle *framework;  /* receives what is read of lua_dir; may be NULL */
	/* Asked before a file of the rules directory is run; NULL: all may. */
	int (*on_file)(void *ctx, const char *path, const struct bundle_file *file,
		       struct error *err);
	void *on_file_ctx;
};

/* Read a file of the rules directory, or of `from`.
 *
 * @param name  in the rules directory */
TIDE_MUST_USE int sandbox_read(struct sandbox *sandbox, const char *name,
			       struct source *out, struct error *err);

/* The shipped scripts are beside the framework. What is said of one begins with this:
 * "shipped/priority/fifo.lua". */
#define SANDBOX_SHIPPED "shipped/"
/* Where they are, from the framework's directory. */
#define SANDBOX_SHIPPED_DIR "../rules"

/* Read a shipped script.
 *
 * @param name  "priority/fifo.lua" */
TIDE_MUST_USE int sandbox_read_shipped(struct sandbox *sandbox, const char *name,
				       struct source *out, struct error *err);

/* Open the libraries in a new state. */
void sandbox_open(lua_State *L, struct sandbox *sandbox);

/* Pop a value. Every file loaded from now on has it as the global `name`. Each file gets
 * a copy of a table. */
void sandbox_add_global(lua_State *L, const char *name);

/* Push the chunk of `source`, with an environment of its own, and free the source. Errors
 * call the file `name`. */
void sandbox_load_take(lua_State *L, struct source *source, const char *name);

/* The `require` of the environment on top of the stack, and of the modules that it loads,
 * loads at any time: that of a prompt, which no broker has. */
void sandbox_allow_require(lua_State *L);
