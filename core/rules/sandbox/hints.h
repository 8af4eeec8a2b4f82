/* hints.h: what an error of a script says besides what Lua says: what to use in the place
 * of a library that scripts do not have, and the stack.
 *
 *   filter/10-x.lua:3: attempt to index a nil value (global 'os'); scripts have no 'os':
 *   use tide.now() for the time
 *
 * Nothing is paid before a name is missing. All functions run inside script_enter and may
 * raise. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

struct script_state;

/* The result of reading a field that is missing: nil, which an error about it will
 * explain; or an error at once. */
enum hints_guard { HINTS_EXPLAIN, HINTS_REFUSE };

/* Guard the table on the top, which scripts know as `name`: "math". It gets a
 * metatable, unless it has one. A view is seen through. */
void hints_guard(lua_State *L, const char *name, enum hints_guard how);

/* Inside a message handler: if the text on the top is Lua's error about a missing
 * variable or field, and there is a hint, add it. */
void hints_add(lua_State *L);

/* The n-th name that Lua has and scripts lack: "os", "math.random". NULL after the last.
 */
const char *hints_absent(size_t number);
/* The replacement for a function that scripts lack; NULL if there is no advice. `owner`
 * is "" or a library. */
const char *hints_instead(const char *owner, const char *name);

/* Push what to say about a module that was not found, or cannot be one: "", or "; …". */
void hints_push_module(lua_State *L, const char *name);

/* For a message handler: write the stack of Lua to `out`, a line for each function:
 *
 *   filter/10-x.lua:3: in function 'amount_of'
 *   filter/10-x.lua:9: in function 'publish'
 *
 * The innermost function is first. The lines are whole, have names and lines of scripts,
 * and no values. A name with a secret in it is left out. Allocates nothing in the state.
 */
void hints_write_traceback(lua_State *L, const struct script_state *s, char *out,
			   size_t max);

/* Secrets are kept when they change: an old one may still be in use. The oldest goes. */
#define HIDDEN_MAX 256
#define HIDDEN_PART_MAX 12
/* No line shows more of a text. */
#define HIDDEN_LINE_MAX 1024

/* Texts that no error and no line of the log shows: passwords and secrets. A script that
 * is given such a text may put it into its errors by accident. Zeroed memory is an empty
 * list. */
struct hidden {
	struct slice texts[HIDDEN_MAX]; /* owned */
	size_t count, next;
};

void hidden_deinit(struct hidden *h);
/* Copies the text. An empty one hides nothing. */
void hidden_add(struct hidden *h, struct slice text);
/* Would a line with the text at its front show a part of `secret`: HIDDEN_PART_MAX bytes
 * in a row, or all of a shorter one? */
bool hidden_is_shown(struct slice secret, struct slice text);
/* The same for each of the list. `h` may be NULL. */
bool hidden_is_in(const struct hidden *h, struct slice text);
