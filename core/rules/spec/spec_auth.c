#include "spec_auth.h"

#include <lauxlib.h>

#include "rules/engine/auth.h"
#include "rules/sandbox/field.h"
#include "spec_field.h"

static void set_limit(lua_State *L, const char *name, uint32_t value)
{
	if (value > 0)
		spec_field_set_integer(L, name, value);
}

static void set_limits(lua_State *L, const struct auth_limits *l)
{
	lua_newtable(L);
	set_limit(L, "max_connections", l->connections);
	set_limit(L, "max_channels", l->channels);
	set_limit(L, "publish_rate", l->publish_rate);
	set_limit(L, "publish_bytes", l->publish_bytes);
	lua_setfield(L, -2, "limits");
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
	spec_field_set_text(L, "name", i->name);
	push_tags(L, i->tags);
	lua_setfield(L, -2, "tags");
	for (int p = 0; p < AUTH_PATTERN_COUNT; p++)
		spec_field_set_text(L, patterns[p], i->patterns[p]);
	set_limits(L, &i->limits);
}

static void push_decision(lua_State *L, const struct auth_decision *d)
{
	lua_pushstring(L, auth_verdict_name(d->verdict));
	if (d->has_identity)
		push_identity(L, &d->identity);
	else if (d->verdict == AUTH_REFUSE)
		lua_pushstring(L, d->reason);
	else
		lua_pushnil(L);
	lua_pushstring(L, d->file);
}

static struct auth_login read_login(lua_State *L, struct decision_context *context)
{
	luaL_checktype(L, 2, LUA_TTABLE);
	luaL_checkstack(L, 20, NULL);
	return (struct auth_login){
		.user = spec_field_slice(L, 2, "user", NULL),
		.password = spec_field_slice(L, 2, "password", NULL),
		.vhost = spec_field_slice(L, 2, "vhost", "/"),
		.name = spec_field_slice(L, 2, "name", NULL),
		.address = spec_field_slice(L, 2, "address", "127.0.0.1"),
		.certificate = spec_field_slice(L, 2, "certificate", NULL),
		.protocol = spec_field_text(L, 2, "protocol", "line"),
		.is_tls = spec_field_flag(L, 2, "is_tls"),
		.is_local = spec_field_flag(L, 2, "is_local"),
		.context = context,
	};
}

int spec_auth_authenticate(lua_State *L, struct engine *e,
			   struct decision_context *context, struct error *err)
{
	static const char *const names[] = { "user",     "password", "vhost",
					     "name",     "address",  "certificate",
					     "protocol", "is_tls",   "is_local",
					     NULL };
	const struct auth_login login = read_login(L, context);
	struct auth_decision d;

	field_check_names(L, 2, "a login", names);
	int rc = auth_authenticate(e, &login, &d, err);
	if (rc != TIDE_OK)
		return rc;
	push_decision(L, &d);
	auth_decision_deinit(&d);
	return TIDE_OK;
}

static void push_settings(lua_State *L, const struct connect_decision *d)
{
	lua_newtable(L);
	spec_field_set_text(L, "name", d->name[0] ? d->name : NULL);
	spec_field_set_text(L, "vhost", d->vhost[0] ? d->vhost : NULL);
	spec_field_set_text(L, "file", d->file);
	if (d->has_limits)
		set_limits(L, &d->limits);
}

int spec_auth_connect(lua_State *L, struct engine *e, struct decision_context *context)
{
	static const char *const names[] = { "user",    "vhost",       "name",
					     "address", "certificate", "protocol",
					     "is_tls",  "is_local",    NULL };
	const struct auth_login client = read_login(L, context);
	struct connect_decision d;
	struct error err;

	field_check_names(L, 2, "a client", names);
	int rc = auth_connect(e, &client, &d, &err);
	if (!d.is_refused) {
		push_settings(L, &d);
		return 1;
	}
	lua_pushnil(L);
	lua_pushstring(L, rc < 0 ? err.text : d.reason);
	lua_pushstring(L, d.file);
	return 3;
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
		.user = spec_field_slice(L, 2, "name", ""),
		.vhost = spec_field_slice(L, 2, "vhost", "/"),
		.address = spec_field_slice(L, 2, "address", "127.0.0.1"),
		.tags = (spec_field_flag(L, 2, "is_admin") ? AUTH_ADMIN : 0u) |
			(spec_field_flag(L, 2, "is_monitor") ? AUTH_MONITOR : 0u),
		.action = actions[luaL_checkoption(L, 3, NULL, actions)],
		.kind = kinds[luaL_checkoption(L, 5, "queue", kinds)],
		.name = spec_field_slice(L, 4, "name", ""),
		.context = context,
	};
	int rc = auth_authorize(e, &question, &d, err);
	if (rc == TIDE_OK)
		push_decision(L, &d);
	return rc;
}
