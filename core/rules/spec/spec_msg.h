/* spec_msg.h: messages as the tables that specs write and read.
 *
 * All functions may raise for wrong values. */
#pragma once

#include <lua.h>

#include "base/msg.h"

/* The message that the table at `idx` describes, a reference. What is not given is
 * empty. */
struct msg *spec_msg_read(lua_State *L, int idx);
void spec_msg_push(lua_State *L, const struct msg *m);
/* A list of messages, as a field of the table on the top. */
void spec_msg_set_list(lua_State *L, const char *name, struct msg *const *msgs,
		       unsigned count);
