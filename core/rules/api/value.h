/* value.h: values of Lua as other programs write them: arrays, objects, a null.
 *
 * A table whose keys are 1 to n is an array. One whose keys are texts is an object, and
 * so is an empty one, unless it is marked. All other tables are refused. Objects are
 * written in the order of their names: equal values are equal texts. */
#pragma once

#include <lua.h>
#include <stdbool.h>

#include "base/json_tape.h"

/* How a format writes. The `ctx` is value_write's. Numbers are finite. */
struct value_format {
	const char *name; /* "JSON" */
	void (*null)(void *ctx);
	void (*boolean)(void *ctx, bool b);
	void (*integer)(void *ctx, lua_Integer n);
	void (*number)(void *ctx, double n);
	void (*text)(void *ctx, struct slice s); /* a name too, before its value */
	void (*begin)(void *ctx, bool is_array, size_t count);
	void (*name_text)(void *ctx, struct slice s);
	void (*end)(void *ctx, bool is_array);
	bool is_utf8; /* all texts must be */
};

/* All may raise. */

void value_open(lua_State *L);
void value_push_null(lua_State *L);
/* The body of `function`, decode (text [, { null = true }]) -> value, or nil and a
 * message, for a format that `read` puts on the state's tape. A null becomes nil, or
 * value_push_null's.
 */
int value_decode(lua_State *L,
		 int (*read)(struct json_tape *t, struct slice source, unsigned depth_max,
			     struct error *err),
		 const char *function);
/* Mark the table on the top: it is an array, however empty. False: it has another
 * metatable. */
bool value_mark_array(lua_State *L);
/* Write the value at `idx`, up to DOCUMENT_BYTES_MAX in the `out` of the state's
 * documents, which `write` appends to. */
void value_write(lua_State *L, int idx, const struct value_format *format, void *ctx);
