/* spec_ask.h: any kind of scripts with a `match`, asked by a spec as its row says. */
#pragma once

#include <lua.h>

struct decision_context;
struct engine;

/* ask (kind, argument, …): the scripts of the kind that match are asked, with a table for
 * each argument of the row but `opts` and `state`. `vhost`, `user` and `queue` of the
 * last one are what `match` is held against. Pushes what the last script returned, true
 * for nothing; or false and the reason of a refusal; or nil, a message and a code. Gives
 * how many values that are. */
int spec_ask(lua_State *L, struct engine *e, struct decision_context *context);
