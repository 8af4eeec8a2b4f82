/* field.h: the fields of a table that a script gives.
 *
 * Each function raises for a wrong value, with the name of the field. What it reads
 * stays on the stack, and texts are good as long as it does. */
#ifndef TIDE_RULES_SANDBOX_FIELD_H
#define TIDE_RULES_SANDBOX_FIELD_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define FIELD_DURATIONS "write 250ms, 30s, 5m, 2h, 1d"

/* Refuse every key of the table that is not among `names`, which ends with NULL. `owner`
 * begins the error: "a bucket". */
void field_check_names(lua_State *L, int table, const char *owner,
		       const char *const *names);

/* A string; nil gives `data` NULL and no bytes. */
struct slice field_text(lua_State *L, int table, const char *name);

/* A duration as text, in ms; nil gives 0. */
int64_t field_duration(lua_State *L, int table, const char *name);

bool field_boolean(lua_State *L, int table, const char *name, bool preset);

#endif
