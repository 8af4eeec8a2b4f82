#include "spec_retry.h"

#include "spec_msg.h"

void spec_retry_push_take(lua_State *L, struct retry_extra *extra)
{
	lua_newtable(L);
	if (extra->exchange) {
		lua_pushstring(L, extra->exchange[0] ? extra->exchange : "-");
		lua_setfield(L, -2, "exchange");
	}
	if (extra->key) {
		lua_pushstring(L, extra->key);
		lua_setfield(L, -2, "key");
	}
	if (extra->msg) {
		spec_msg_push(L, extra->msg);
		lua_setfield(L, -2, "msg");
	}
	lua_newtable(L);
	for (unsigned i = 0; i < extra->copies.count; i++) {
		spec_msg_push(L, extra->copies.items[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_setfield(L, -2, "copies");
	strategy_extra_unref(extra);
}
