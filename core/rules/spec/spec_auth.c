#include "spec_auth.h"

#include <lauxlib.h>

#include "rules/sandbox/field.h"

/* A word of an argument. It stays on the stack. */
static struct slice word(lua_State *L, int idx, const char *name, const char *preset)
{
	lua_getfield(L, idx, name);
	return slice_from(luaL_optstring(L, -1, preset));
}

static bool flag(lua_State *L, int idx, const char *name)
{
	lua_getfield(L, idx, name);
	bool is_set = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return is_set;
}

static void set_text(lua_State *L, const char *name, const char *text)
{
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

static void push_tags(lua_State *L, unsigned tags)
{
	lua_newtable(L);
	if (tags & AUTH_ADMIN) {
		lua_pushliteral(L, "admin");
		lua_rawseti(L, -2, 1);
	}
	if (tags & AUTH_MONITOR) {
		lua_pushliteral(L, "monitor");
		lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
	}
}

static void push_identity(lua_State *L, const struct auth_identity *i)
{
	static const char *const patterns[] = { "configure", "write", "read" };

	lua_newtable(L);
	set_text(L, "name", i->name);
	push_tags(L, i->tags);
	lua_setfield(L, -2, "tags");
	for (int p = 0; p < AUTH_PATTERN_COUNT; p++)
		if (i->patterns[p])
			set_text(L, patterns[p], i->patterns[p]);
	lua_newtable(L);
	set_limit(L, "max_connections", i->limits.connections);
	set_limit(L, "max_channels", i->limits.channels);
	set_limit(L, "publish_rate", i->limits.publish_rate);
	set_limit(L, "publish_bytes", i->limits.publish_bytes);
	lua_setfield(L, -2, "limits");
}

static void push_decision(lua_State *L, const struct auth_decision *d)
{
	lua_pushstring(L, auth_verdict_name(d->verdict));
	if (d->has_identity)
		push_identity(L, &d->identity);
	else if (d->verdict == AUTH_DENY)
		lua_pushstring(L, d->reason);
	else
		lua_pushnil(L);
	lua_pushstring(L, d->file);
}

int spec_auth_authenticate(lua_State *L, struct engine *e,
			   struct decision_context *context, struct error *err)
{
	static const char *const names[] = { "user",     "password", "vhost",
					     "name",     "address",  "certificate",
					     "protocol", "is_tls",   "is_local",
					     NULL };
	struct auth_decision d;

	luaL_checktype(L, 2, LUA_TTABLE);
	luaL_checkstack(L, 20, NULL);
	field_check_names(L, 2, "a login", names);
	const struct auth_login login = {
		.user = word(L, 2, "user", NULL),
		.password = word(L, 2, "password", NULL),
		.vhost = word(L, 2, "vhost", "/"),
		.name = word(L, 2, "name", NULL),
		.address = word(L, 2, "address", "127.0.0.1"),
		.certificate = word(L, 2, "certificate", NULL),
		.protocol = word(L, 2, "protocol", "line").data,
		.is_tls = flag(L, 2, "is_tls"),
		.is_local = flag(L, 2, "is_local"),
		.context = context,
	};
	int rc = auth_authenticate(e, &login, &d, err);
	if (rc != TIDE_OK)
		return rc;
	push_decision(L, &d);
	auth_decision_deinit(&d);
	return TIDE_OK;
}

int spec_auth_authorize(lua_State *L, struct engine *e, struct decision_context *context,
			struct error *err)
{
	static const char *const actions[] = { "configure", "write", "read", NULL };
	static const char *const kinds[] = { "exchange", "queue", "topic", "lock", NULL };
	struct auth_decision d;

	luaL_checktype(L, 2, LUA_TTABLE);
	luaL_checktype(L, 4, LUA_TTABLE);
	luaL_checkstack(L, 20, NULL);
	lua_settop(L, 4);
	lua_getfield(L, 4, "kind");
	const struct auth_question question = {
		.user = word(L, 2, "name", ""),
		.vhost = word(L, 2, "vhost", "/"),
		.address = word(L, 2, "address", "127.0.0.1"),
		.tags = (flag(L, 2, "is_admin") ? AUTH_ADMIN : 0u) |
			(flag(L, 2, "is_monitor") ? AUTH_MONITOR : 0u),
		.action = actions[luaL_checkoption(L, 3, NULL, actions)],
		.kind = kinds[luaL_checkoption(L, 5, "queue", kinds)],
		.name = word(L, 4, "name", ""),
		.context = context,
	};
	int rc = auth_authorize(e, &question, &d, err);
	if (rc == TIDE_OK)
		push_decision(L, &d);
	return rc;
}
