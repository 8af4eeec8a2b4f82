/* spec_value.h: what the methods of specs have in common: objects of C, fields of tables,
 * messages as tables, the answer.
 *
 * A spec's method raises for a wrong use; it returns nil, a message and an error code for
 * what the engine refuses. All functions here may raise for wrong values. */
#pragma once

#include <lauxlib.h>
#include <stdbool.h>

#include "base/args.h"
#include "base/error.h"
#include "base/msg.h"
#include "rules/api/view.h"
#include "rules/engine/engine_private.h"

#define SPEC_ENGINE "luatide.engine"

/* The userdata behind an engine, an index or a strategy of a spec. */
struct spec_box {
	void *object;                     /* NULL once it is destroyed */
	struct decision_context *context; /* of an engine: within dry_run, else NULL */
};

/* The object of the box that is argument 1; raises if the box is closed. */
void *spec_box_check(lua_State *L, const char *type);
/* The box keeps the value at `owner` (its engine's) alive; 0: there is none. */
struct spec_box *spec_box_push(lua_State *L, const char *type, int owner);
/* The context of the engine that is argument 1, or that argument 1 belongs to. */
struct decision_context *spec_box_context(lua_State *L);
/* The metatable of a kind of boxes. */
void spec_box_type(lua_State *L, const char *type, const luaL_Reg *methods,
		   lua_CFunction close);

/* The `count` values on the top, or what the engine refuses. */
int spec_value_answer(lua_State *L, int rc, const struct error *err, int count);
/* Options: the table at that index, if there is one. */
void spec_value_args(lua_State *L, int idx, struct args *out);

/* The argument, a table; an empty one takes the place of nil. */
void spec_value_table(lua_State *L, int idx);
/* Fields of the table at `idx`. A text stays on the stack. */
lua_Integer spec_value_integer(lua_State *L, int idx, const char *name,
			       lua_Integer preset);
bool spec_value_flag(lua_State *L, int idx, const char *name);
const char *spec_value_text(lua_State *L, int idx, const char *name, const char *preset);
struct slice spec_value_slice(lua_State *L, int idx, const char *name,
			      const char *preset);

/* The text of a field that a table lacks; "" for a further name that the table may have,
 * and that is no field of the view. */
struct spec_preset {
	const char *name, *text;
};
/* Fill the struct behind a view (a kind's row names it) from the table at `idx`. Refuses
 * names that are no fields. A field with a `push` that view.h lacks stays as it is; the
 * texts stay on the stack.
 *
 * @param presets  end with a NULL name */
void spec_value_view(lua_State *L, int idx, const struct view_type *view,
		     const struct spec_preset *presets, void *out);

/* Fields of the table on the top. */
void spec_value_set_integer(lua_State *L, const char *name, int64_t value);
void spec_value_set_text(lua_State *L, const char *name, const char *text); /* or NULL */
void spec_value_set_headers(lua_State *L, const struct msg *m);
void spec_value_set_list(lua_State *L, const char *name, const char *const *texts,
			 size_t count);

/* The message that the table at `idx` describes, a reference. What is not given is
 * empty. */
struct msg *spec_value_msg(lua_State *L, int idx);
void spec_value_push_msg(lua_State *L, const struct msg *m);
/* Push a list of messages, and release them. */
void spec_value_push_msgs_take(lua_State *L, struct draft_copies *copies);

/* spec_ask.c: the methods that ask scripts; the types of what they make. */
extern const luaL_Reg spec_ask_methods[];
void spec_ask_open(lua_State *L);
