/* spec_field.h: fields of the tables that specs write and read.
 *
 * All functions may raise for wrong values. */
#pragma once

#include <lua.h>
#include <stdbool.h>

#include "base/msg.h"

/* Fields of the table at `idx`. A text stays on the stack. */
lua_Integer spec_field_integer(lua_State *L, int idx, const char *name,
			       lua_Integer preset);
bool spec_field_is_there(lua_State *L, int idx, const char *name);
bool spec_field_flag(lua_State *L, int idx, const char *name);
const char *spec_field_text(lua_State *L, int idx, const char *name, const char *preset);
struct slice spec_field_slice(lua_State *L, int idx, const char *name,
			      const char *preset);

/* Fields of the table on the top. */
void spec_field_set_integer(lua_State *L, const char *name, int64_t value);
void spec_field_set_text(lua_State *L, const char *name, const char *text); /* or NULL */
void spec_field_set_slice(lua_State *L, const char *name, struct slice value);
void spec_field_set_headers(lua_State *L, const struct msg *m);
/* A list of texts. */
void spec_field_set_list(lua_State *L, const char *name, const char *const *texts,
			 size_t count);
