#include "connect.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "engine_private.h"
#include "hook.h"
#include "rules/api/view.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"

#define CLIENT(name, push, field)                                     \
	{                                                             \
		name, push, offsetof(struct auth_login, field), false \
	}
static const struct view_field client_fields[] = {
	CLIENT("user", view_push_given, user),
	CLIENT("name", view_push_given, name),
	CLIENT("vhost", view_push_given, vhost),
	CLIENT("address", view_push_given, address),
	CLIENT("certificate", view_push_given, certificate),
	CLIENT("protocol", view_push_text, protocol),
	CLIENT("is_tls", view_push_bool, is_tls),
	CLIENT("is_local", view_push_bool, is_local),
	{ NULL, NULL, 0, false },
};
static const struct view_type client_type = { .number = VIEW_CLIENT,
					      .name = "client",
					      .fields = client_fields };

void connect_open(lua_State *L)
{
	view_open(L, &client_type);
}

struct connecting {
	struct auth_login client; /* as the scripts so far have made it */
	struct connect_decision *out;
};

/* A name in the table on the top. */
static void read_name(lua_State *L, const char *field, char out[NAME_LEN_MAX + 1],
		      struct slice *seen)
{
	struct slice name = { 0 };

	if (lua_getfield(L, -1, field) != LUA_TNIL) {
		if (lua_type(L, -1) == LUA_TSTRING)
			name = field_slice(L, -1);
		if (!slice_is_name(name))
			luaL_error(L,
				   "connect returned a wrong '%s': 1 to %d bytes of "
				   "UTF-8 without white space",
				   field, NAME_LEN_MAX);
		memcpy(out, name.data, name.len);
		out[name.len] = '\0';
		*seen = (struct slice){ out, name.len };
	}
	lua_pop(L, 1);
}

/* What is not in the table stays as it is. */
static void read_settings(lua_State *L, struct connecting *c)
{
	static const char *const names[] = { "name", "vhost", "limits", NULL };
	struct connect_decision *out = c->out;

	read_only_see_through(L, lua_gettop(L));
	field_check_names(L, -1, "the table that connect returned", names);
	read_name(L, "name", out->name, &c->client.name);
	read_name(L, "vhost", out->vhost, &c->client.vhost);
	if (!auth_read_limits(L, "connect", &out->limits))
		return;
	out->has_limits = true;
	if (out->limits.connections)
		luaL_error(L, "connect returned 'limits.max_connections', which is a "
			      "limit of a user or an address, not of a connection");
}

static void read_result(lua_State *L, struct hook_call *call, struct connecting *c)
{
	int type = lua_type(L, -2);
	bool is_refused = type == LUA_TBOOLEAN && !lua_toboolean(L, -2);

	if (type != LUA_TNIL && type != LUA_TTABLE && !is_refused)
		luaL_error(L,
			   "connect must return nothing, false and a reason, or a table "
			   "with name, vhost or limits, not a %s",
			   luaL_typename(L, -2));
	if (!lua_isnil(L, -1) && (!is_refused || lua_type(L, -1) != LUA_TSTRING))
		luaL_error(L, "connect returned a second value that is no reason of a "
			      "refusal");
	if (is_refused) {
		auth_read_reason(L, c->out->reason);
		c->out->is_refused = call->is_decided = true;
	}
	lua_pop(L, 1);
	if (type == LUA_TTABLE)
		read_settings(L, c);
}

/* connect (client, opts, state) -> nothing, false and a reason, or a table */
static int l_connect(lua_State *L)
{
	struct hook_call *call = lua_touserdata(L, 1);
	struct connecting *c = call->ctx;

	hook_push(L, call);
	view_push(L, &client_type, &c->client);
	hook_call_script(L, call, 1, 2);
	script_set_place(script_state_of(L), rule_code_file(call->rule),
			 call->rule->decide_line);
	read_result(L, call, c);
	return 0;
}

int connect_ask(struct engine *e, const struct auth_login *client,
		struct connect_decision *out, struct error *err)
{
	struct connecting c = { .client = *client, .out = out };
	struct hook_call call = { .kind = SCRIPT_CONNECT,
				  .subject = { .vhost = client->vhost,
					       .user = client->user },
				  .context = client->context,
				  .body = l_connect,
				  .ctx = &c };
	int rc;

	*out = (struct connect_decision){ 0 };
	rc = hook_run(e, &call, err);
	out->file = call.file;
	out->line = call.line;
	out->model = call.rule ? call.rule->model : NULL;
	if (rc < 0) {
		out->is_refused = true;
		snprintf(out->reason, sizeof(out->reason), "a script failed");
	}
	if (out->is_refused && rc == TIDE_OK &&
	    !(client->context && client->context->is_dry))
		call.rule->stats.rejected++;
	return rc;
}
