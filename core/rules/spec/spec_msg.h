/* spec_msg.h: messages as the tables that specs write and read; fields of such tables.
 *
 * All functions may raise for wrong values. */
#pragma once

#include <lua.h>
#include <stdbool.h>

#include "base/msg.h"

/* The message that the table at `idx` describes, a reference. What is not given is
 * empty. */
struct msg *spec_msg_read(lua_State *L, int idx);
void spec_msg_push(lua_State *L, const struct msg *m);

/* Fields of the table at `idx`. A text stays on the stack. */
lua_Integer spec_msg_integer(lua_State *L, int idx, const char *name, lua_Integer preset);
bool spec_msg_has(lua_State *L, int idx, const char *name);
const char *spec_msg_text(lua_State *L, int idx, const char *name, const char *preset);
/* Of the table on the top. */
void spec_msg_set_integer(lua_State *L, const char *name, int64_t value);
