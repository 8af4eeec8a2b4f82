/* spec_box.h: an object of C as specs have it: an engine, and what belongs to one. And
 * what their methods have in common. */
#pragma once

#include <lauxlib.h>

#include "base/args.h"
#include "base/error.h"
#include "rules/api/decision_context.h"

#define SPEC_BOX_ENGINE "luatide.engine"

struct spec_box {
	void *object;                     /* NULL once it is destroyed */
	struct decision_context *context; /* of an engine: within dry_run, else NULL */
};

/* The object of the box that is argument 1; raises if it is closed. */
void *spec_box_check(lua_State *L, const char *type);
/* The box keeps the value at `owner` (its engine's) alive; 0: there is none. */
struct spec_box *spec_box_push(lua_State *L, const char *type, int owner);
/* The context of the engine that is argument 1, or that argument 1 belongs to. */
struct decision_context *spec_box_context(lua_State *L);
/* The value on the top, or what the engine refuses. */
int spec_box_answer(lua_State *L, int rc, const struct error *err);
/* Options: the table at that index, if there is one. */
void spec_box_args(lua_State *L, int idx, struct args *out);
/* The metatable of a kind of boxes. */
void spec_box_type(lua_State *L, const char *type, const luaL_Reg *methods,
		   lua_CFunction close);
