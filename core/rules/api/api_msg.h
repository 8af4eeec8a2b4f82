/* api_msg.h: `msg` as scripts see it: a view on a message and its headers. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/msg.h"
#include "view.h"

struct api_msg {
	const struct msg *msg;
	uint32_t attempt; /* 0 before the first delivery */
	bool has_place;   /* it is in a topic, there */
	uint32_t partition;
	uint64_t offset;
};

/* For draft.c: the fields but the headers; `__index` of the headers; the name of a header
 * at `idx`; nil for an empty slice. */
extern const struct view_field api_msg_fields[];
int api_msg_header(lua_State *L);
struct slice api_msg_header_name(lua_State *L, int idx);
void api_msg_push_optional(lua_State *L, struct slice s);

/* Both may raise. */
void api_msg_open(lua_State *L);
/* Push a view of `m`, which outlives the call under way. */
void api_msg_push(lua_State *L, const struct api_msg *m);
