/* spec_msg.h: messages as specs see them: tables. */
#pragma once

#include <lua.h>

#include "base/msg.h"

/* What became of a message. */
void spec_msg_push(lua_State *L, const struct msg *m);
/* What a schedule publishes; it is due after `delay`. */
void spec_msg_push_scheduled(lua_State *L, const struct msg *m);
