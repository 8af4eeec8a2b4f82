#include "absent.h"

#include <lauxlib.h>

#include "rules/engine/engine_private.h"
#include "rules/sandbox/script.h"

void engine_absent_begin(struct engine *e, size_t bytes)
{
	e->current->script.absent_bytes = bytes;
	e->current->script.was_absent_read = false;
}

bool engine_absent_end(struct engine *e)
{
	e->current->script.absent_bytes = 0;
	return e->current->script.was_absent_read;
}

size_t absent_bytes(lua_State *L)
{
	return script_state_of(L)->absent_bytes;
}

void absent_check(lua_State *L)
{
	struct script_state *s = script_state_of(L);
	if (s->absent_bytes == 0)
		return;
	s->was_absent_read = true;
	luaL_error(L, "msg.payload is not there any more; see serve --replay-payloads");
}
