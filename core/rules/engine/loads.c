#include "loads.h"

#include <lauxlib.h>

#include "rules/sandbox/script.h"

static const char loads_key; /* of the function in the registry */

/* The function's upvalue. */
struct subject {
	const struct loads *loads;
	uint64_t serial; /* of the call that it is good for */
};

/* loads (shard) -> messages that are ready or unacknowledged in it */
static int l_loads(lua_State *L)
{
	struct subject *s = lua_touserdata(L, lua_upvalueindex(1));
	lua_Integer shard = luaL_checkinteger(L, 1);

	if (s->serial != script_state_of(L)->serial)
		return luaL_error(L,
				  "'loads' has expired: it was good for one call only");
	if (shard < 0 || shard >= (lua_Integer)s->loads->shards)
		return luaL_error(L, "there is no shard %I: they are 0 to %d",
				  (LUAI_UACINT)shard, (int)s->loads->shards - 1);
	uint64_t load =
		s->loads->load ? s->loads->load(s->loads->ctx, (unsigned)shard) : 0;
	lua_pushinteger(L, (lua_Integer)load);
	return 1;
}

void loads_open(lua_State *L)
{
	struct subject *s = lua_newuserdatauv(L, sizeof(*s), 0);

	*s = (struct subject){ .loads = NULL };
	lua_pushcclosure(L, l_loads, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &loads_key);
}

void loads_push(lua_State *L, const struct loads *l)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &loads_key);
	lua_getupvalue(L, -1, 1);
	struct subject *s = lua_touserdata(L, -1);
	lua_pop(L, 1);
	s->loads = l;
	s->serial = script_state_of(L)->serial;
}
