#include "spec_connect.h"

#include <lauxlib.h>

#include "rules/engine/connect.h"
#include "rules/sandbox/field.h"

/* It stays on the stack. */
static struct slice word(lua_State *L, const char *name, const char *preset)
{
	lua_getfield(L, 2, name);
	return slice_from(luaL_optstring(L, -1, preset));
}

static bool flag(lua_State *L, const char *name)
{
	lua_getfield(L, 2, name);
	return lua_toboolean(L, -1);
}

static void set_text(lua_State *L, const char *name, const char *text)
{
	if (!text || !text[0])
		return;
	lua_pushstring(L, text);
	lua_setfield(L, -2, name);
}

static void set_limit(lua_State *L, const char *name, uint32_t value)
{
	if (value == 0)
		return;
	lua_pushinteger(L, value);
	lua_setfield(L, -2, name);
}

static void push_settings(lua_State *L, const struct connect_decision *d)
{
	lua_newtable(L);
	set_text(L, "name", d->name);
	set_text(L, "vhost", d->vhost);
	set_text(L, "file", d->file);
	if (!d->has_limits)
		return;
	lua_newtable(L);
	set_limit(L, "max_channels", d->limits.channels);
	set_limit(L, "publish_rate", d->limits.publish_rate);
	set_limit(L, "publish_bytes", d->limits.publish_bytes);
	lua_setfield(L, -2, "limits");
}

int spec_connect(lua_State *L, struct engine *e, struct decision_context *context)
{
	static const char *const names[] = { "user",    "vhost",       "name",
					     "address", "certificate", "protocol",
					     "is_tls",  "is_local",    NULL };
	struct connect_decision d;
	struct error err;

	luaL_checktype(L, 2, LUA_TTABLE);
	field_check_names(L, 2, "a client", names);
	const struct connect_client client = {
		.user = word(L, "user", NULL),
		.name = word(L, "name", NULL),
		.vhost = word(L, "vhost", "/"),
		.address = word(L, "address", "127.0.0.1"),
		.certificate = word(L, "certificate", NULL),
		.protocol = word(L, "protocol", "line").data,
		.is_tls = flag(L, "is_tls"),
		.is_local = flag(L, "is_local"),
		.context = context,
	};
	int rc = connect_ask(e, &client, &d, &err);
	if (!d.is_refused) {
		push_settings(L, &d);
		return 1;
	}
	lua_pushnil(L);
	lua_pushstring(L, rc < 0 ? err.text : d.reason);
	lua_pushstring(L, d.file);
	return 3;
}
