#include "auth.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/user_pattern.h"
#include "engine_private.h"
#include "hook.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"

const char *auth_verdict_name(enum auth_verdict verdict)
{
	static const char *const names[] = { "none", "allow", "refuse" };

	return names[verdict];
}

void auth_decision_deinit(struct auth_decision *d)
{
	for (int p = 0; p < AUTH_PATTERN_COUNT; p++) {
		mem_free(d->identity.patterns[p]);
		d->identity.patterns[p] = NULL;
	}
}

bool auth_has_authenticate(const struct engine *e)
{
	return e->current && e->current->authenticate_count > 0;
}

bool auth_has_authorize(const struct engine *e)
{
	return e->current && e->current->authorize_count > 0;
}

/* From here to auth_authenticate: inside the door. */

struct auth_call {
	const struct auth_login *login; /* NULL: an authorization */
	struct auth_decision *out;
};

/* The tag of the text on the top. */
static unsigned check_tag(lua_State *L)
{
	if (lua_type(L, -1) == LUA_TSTRING) {
		if (strcmp(lua_tostring(L, -1), "admin") == 0)
			return AUTH_ADMIN;
		if (strcmp(lua_tostring(L, -1), "monitor") == 0)
			return AUTH_MONITOR;
	}
	luaL_error(L, "authenticate returned wrong 'tags': a list of \"admin\" and "
		      "\"monitor\"");
	return 0;
}

static void read_tags(lua_State *L, struct auth_identity *out)
{
	if (lua_getfield(L, -1, "tags") != LUA_TNIL) {
		if (!lua_istable(L, -1)) {
			lua_pushnil(L);
			check_tag(L);
		}
		read_only_see_through(L, lua_gettop(L));
		for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1))
			out->tags |= check_tag(L);
	}
	lua_pop(L, 1);
}

/* A pattern that is wrong, or would take too long, is told here, with file and line. It
 * may be made of what a client says. */
static void check_pattern(lua_State *L, const char *name, struct slice text)
{
	struct user_pattern pattern = { 0 };
	struct error why;

	if (user_pattern_init(&pattern, text, &why) < 0)
		luaL_error(L, "authenticate returned a wrong '%s': %s", name, why.text);
	user_pattern_deinit(&pattern);
}

static void read_pattern(lua_State *L, const char *name, char **out)
{
	if (lua_getfield(L, -1, name) != LUA_TNIL) {
		struct slice text = { 0 };

		if (lua_type(L, -1) == LUA_TSTRING)
			text = field_slice(L, -1);
		if (!text.data || text.len > AUTH_PATTERN_MAX ||
		    memchr(text.data, '\0', text.len))
			luaL_error(L,
				   "authenticate returned a wrong '%s': a pattern is a "
				   "text of at most %d bytes",
				   name, AUTH_PATTERN_MAX);
		check_pattern(L, name, text);
		*out = mem_strndup(text.data, text.len);
	}
	lua_pop(L, 1);
}

/* `limits` of the table on the top. False: it has none. */
static bool read_limits(lua_State *L, const char *function, struct auth_limits *out)
{
	static const char *const names[] = { "max_connections", "max_channels",
					     "publish_rate", "publish_bytes", NULL };
	uint32_t *const places[] = { &out->connections, &out->channels,
				     &out->publish_rate, &out->publish_bytes };
	int type = lua_getfield(L, -1, "limits");

	if (type != LUA_TNIL && type != LUA_TTABLE)
		luaL_error(L, "%s returned wrong 'limits': a table, not a %s", function,
			   luaL_typename(L, -1));
	if (type == LUA_TTABLE) {
		read_only_see_through(L, lua_gettop(L));
		field_check_names(L, -1, "limits", names);
	}
	for (int i = 0; type == LUA_TTABLE && names[i]; i++, lua_pop(L, 1)) {
		int is_integer;

		if (lua_getfield(L, -1, names[i]) == LUA_TNIL)
			continue;
		lua_Integer value = lua_tointegerx(L, -1, &is_integer);
		if (!is_integer || value < 0 || value > AUTH_LIMIT_MAX)
			luaL_error(L,
				   "%s returned a wrong 'limits.%s': an integer from 0 "
				   "(no limit) to %I",
				   function, names[i], (lua_Integer)AUTH_LIMIT_MAX);
		*places[i] = (uint32_t)value;
	}
	lua_pop(L, 1);
	return type == LUA_TTABLE;
}

/* The name on the top. */
static struct slice check_name(lua_State *L, const char *function, const char *field)
{
	struct slice name = { 0 };

	if (lua_type(L, -1) == LUA_TSTRING)
		name = field_slice(L, -1);
	if (!slice_is_name(name))
		luaL_error(L,
			   "%s returned a wrong '%s': 1 to %d bytes of UTF-8 without "
			   "white space",
			   function, field, NAME_LEN_MAX);
	return name;
}

/* The user on the top. */
static void read_identity(lua_State *L, const struct auth_login *login,
			  struct auth_identity *out)
{
	static const char *const names[] = { "name", "tags",   "configure", "write",
					     "read", "limits", NULL };

	field_check_names(L, -1, "the user that authenticate returned", names);
	int table = lua_gettop(L);
	if (lua_getfield(L, table, "name") == LUA_TNIL)
		field_push(L, login->user);
	struct slice name = check_name(L, "authenticate", "name");
	memcpy(out->name, name.data, name.len);
	lua_settop(L, table);
	read_tags(L, out);
	read_pattern(L, "configure", &out->patterns[AUTH_CONFIGURE]);
	read_pattern(L, "write", &out->patterns[AUTH_WRITE]);
	read_pattern(L, "read", &out->patterns[AUTH_READ]);
	read_limits(L, "authenticate", &out->limits);
}

/* The user that `authenticate` or `authorize` lets in; nil is no opinion. */
static void take_verdict(lua_State *L, const struct use_call *c, unsigned result)
{
	const struct auth_call *call = c->ctx;

	if (result & (RESULT_TRUE | RESULT_TABLE))
		call->out->verdict = AUTH_ALLOW;
	if (result != RESULT_TABLE)
		return;
	read_only_see_through(L, lua_gettop(L));
	read_identity(L, call->login, &call->out->identity);
	call->out->has_identity = true;
}

static int ask_script(struct engine *e, struct rule *rule, const struct auth_call *call,
		      struct use_call *asked, struct error *err)
{
	struct use use = rule->own;
	struct script_refusal refusal;

	asked->use = &use;
	asked->refusal = &refusal;
	/* Anybody may name a vhost in a login: none has an account of its own. */
	if (call->login)
		use.account = account_open(&e->current->script.accounts, rule->file,
					   (struct slice){ 0 });
	int rc = use_decide(e, asked, err);
	if (rc == TIDE_OK && refusal.is_refused) {
		call->out->verdict = AUTH_REFUSE;
		memcpy(call->out->reason, refusal.reason, sizeof(refusal.reason));
	}
	return rc;
}

/* Ask each script that has the function. */
static int ask_all(struct engine *e, struct auth_call *call, struct use_call *asked,
		   struct error *err)
{
	struct auth_decision *out = call->out;
	const struct generation *g = e->current;

	*out = (struct auth_decision){ .verdict = AUTH_NONE };
	asked->take = take_verdict;
	asked->ctx = call;
	for (size_t i = 0; i < g->rule_count && out->verdict == AUTH_NONE; i++) {
		struct rule *rule = g->rules[i];
		enum rule_function f = asked->function;

		if (rule->kind != SCRIPT_AUTH || rule->is_idle ||
		    rule->functions[f] == LUA_NOREF)
			continue;
		out->file = rule->file;
		out->model = rule->model;
		out->line = rule->model ? rule->line : rule->lines[f];
		int rc = ask_script(e, rule, call, asked, err);
		if (rc != TIDE_OK) {
			auth_decision_deinit(out);
			out->verdict = AUTH_REFUSE;
			return rc;
		}
	}
	if (out->verdict == AUTH_NONE)
		out->file = NULL;
	return TIDE_OK;
}

int auth_authenticate(struct engine *e, const struct auth_login *l,
		      struct auth_decision *out, struct error *err)
{
	struct auth_call call = { .login = l, .out = out };
	struct use_call asked = { .vhost = l->vhost,
				  .address = l->address,
				  .password = l->password,
				  .context = l->context,
				  .function = RULE_AUTHENTICATE,
				  .given = { l } };

	if (asked.address.len == 0)
		asked.address = SLICE("a Unix socket");
	if (asked.address.len > NAME_LEN_MAX)
		asked.address.len = NAME_LEN_MAX;
	return ask_all(e, &call, &asked, err);
}

int auth_authorize(struct engine *e, const struct auth_question *q,
		   struct auth_decision *out, struct error *err)
{
	struct auth_call call = { .out = out };
	struct use_call asked = { .vhost = q->vhost,
				  .context = q->context,
				  .given = { q, q->action, q } };

	return ask_all(e, &call, &asked, err);
}

struct connecting {
	struct auth_login client; /* as the scripts so far have made it */
	struct connect_decision *out;
};

/* A name in the table on the top. */
static void read_name(lua_State *L, const char *field, char out[NAME_LEN_MAX + 1],
		      struct slice *seen)
{
	if (lua_getfield(L, -1, field) != LUA_TNIL) {
		struct slice name = check_name(L, "connect", field);

		memcpy(out, name.data, name.len);
		out[name.len] = '\0';
		*seen = (struct slice){ out, name.len };
	}
	lua_pop(L, 1);
}

/* Settings that the table lacks stay as they are. */
static void take_settings(lua_State *L, const struct use_call *call, unsigned result)
{
	static const char *const names[] = { "name", "vhost", "limits", NULL };
	struct connecting *c = ((const struct hook_call *)call->ctx)->ctx;
	struct connect_decision *out = c->out;

	if (result != RESULT_TABLE)
		return;
	read_only_see_through(L, lua_gettop(L));
	field_check_names(L, -1, "the table that connect returned", names);
	read_name(L, "name", out->name, &c->client.name);
	read_name(L, "vhost", out->vhost, &c->client.vhost);
	if (!read_limits(L, "connect", &out->limits))
		return;
	out->has_limits = true;
	if (out->limits.connections)
		luaL_error(L, "connect returned 'limits.max_connections', which is a "
			      "limit of a user or an address, not of a connection");
}

int auth_connect(struct engine *e, const struct auth_login *client,
		 struct connect_decision *out, struct error *err)
{
	struct connecting c = { .client = *client, .out = out };
	struct script_refusal refusal = { false, "" };
	struct hook_call call = { .kind = SCRIPT_CONNECT,
				  .subject = { .vhost = client->vhost,
					       .user = client->user },
				  .context = client->context,
				  .given = { &c.client },
				  .take = take_settings,
				  .ctx = &c,
				  .refusal = &refusal };
	int rc;

	*out = (struct connect_decision){ 0 };
	rc = hook_run(e, &call, err);
	out->file = call.file;
	out->line = call.line;
	out->model = call.rule ? call.rule->model : NULL;
	out->is_refused = refusal.is_refused || rc < 0;
	snprintf(out->reason, sizeof(out->reason), "%s",
		 rc < 0 ? "a script failed" : refusal.reason);
	return rc;
}
