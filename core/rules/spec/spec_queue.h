/* spec_queue.h: the queues that tide.queue knows in a spec: engine:set_queue. */
#pragma once

#include <lua.h>

#include "rules/engine/engine_private.h"

/* set_queue (name, { ready =, … }): in every vhost; nil: there is none of that name */
void spec_queue_set(lua_State *L, struct engine *e);
/* Forget them: the engine is about to be closed. */
void spec_queue_clear(struct engine *e);
