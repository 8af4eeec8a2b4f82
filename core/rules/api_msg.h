/* api_msg.h: `msg` as scripts see it: a view on a message and its headers. */
#ifndef TIDE_RULES_API_MSG_H
#define TIDE_RULES_API_MSG_H

#include <lua.h>
#include <stdint.h>

#include "../base/msg.h"

struct api_msg {
	const struct msg *msg;
	uint32_t attempt; /* 0 before the first delivery */
};

/* Both may raise. */
void api_msg_open(lua_State *L);
/* Push a view of `m`, which outlives the call under way. */
void api_msg_push(lua_State *L, const struct api_msg *m);

#endif
