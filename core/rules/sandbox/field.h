/* field.h: texts on the stack, and the fields of a table that a script gives.
 *
 * Each function for a field raises for a wrong value, with the name of the field. What it
 * reads stays on the stack. Slices are good while their value is on the stack. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define FIELD_DURATIONS "write 250ms, 30s, 5m, 2h, 1d"

/* The string at `idx`, or the number, which becomes one. */
static inline struct slice field_slice(lua_State *L, int idx)
{
	struct slice s;
	s.data = lua_tolstring(L, idx, &s.len);
	return s;
}

static inline void field_push(lua_State *L, struct slice s)
{
	lua_pushlstring(L, s.len ? s.data : "", s.len);
}

/* Refuse every key of the table that is not among `names`, which ends with NULL. `owner`
 * begins the error: "a bucket". */
void field_check_names(lua_State *L, int table, const char *owner,
		       const char *const *names);

/* A string; nil gives `data` NULL and no bytes. */
struct slice field_text(lua_State *L, int table, const char *name);

/* A duration as text, in ms; nil gives 0. */
int64_t field_duration(lua_State *L, int table, const char *name);

bool field_boolean(lua_State *L, int table, const char *name, bool preset);
