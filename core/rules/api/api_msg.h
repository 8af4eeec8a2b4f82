/* api_msg.h: `msg` as scripts see it: a view on a message and its headers. */
#ifndef TIDE_RULES_API_API_MSG_H
#define TIDE_RULES_API_API_MSG_H

#include <lua.h>
#include <stdint.h>

#include "base/msg.h"
#include "view.h"

struct api_msg {
	const struct msg *msg;
	uint32_t attempt; /* 0 before the first delivery */
};

/* The fields of a message in the hands of filters: see draft.h. */
extern const struct view_field api_msg_draft_fields[];

/* Both may raise. */
void api_msg_open(lua_State *L);
/* Push a view of `m`, which outlives the call under way. */
void api_msg_push(lua_State *L, const struct api_msg *m);

#endif
