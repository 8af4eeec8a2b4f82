#include "auth.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/user_pattern.h"
#include "engine_private.h"
#include "rules/api/view.h"
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

/* From here to auth_open: inside the door. */

static void push_is_admin(lua_State *L, const void *member)
{
	lua_pushboolean(L, *(const unsigned *)member & AUTH_ADMIN);
}

static void push_is_monitor(lua_State *L, const void *member)
{
	lua_pushboolean(L, *(const unsigned *)member & (AUTH_ADMIN | AUTH_MONITOR));
}

#define LOGIN(name, push, field)                                      \
	{                                                             \
		name, push, offsetof(struct auth_login, field), false \
	}
static const struct view_field login_fields[] = {
	LOGIN("user", view_push_given, user),
	LOGIN("password", view_push_given, password),
	LOGIN("vhost", view_push_given, vhost),
	LOGIN("name", view_push_given, name),
	LOGIN("address", view_push_given, address),
	LOGIN("certificate", view_push_given, certificate),
	LOGIN("protocol", view_push_text, protocol),
	LOGIN("is_tls", view_push_bool, is_tls),
	LOGIN("is_local", view_push_bool, is_local),
	{ NULL, NULL, 0, false },
};
static const struct view_type login_type = { .number = VIEW_LOGIN,
					     .name = "login",
					     .fields = login_fields };

#define QUESTION(name, push, field)                                      \
	{                                                                \
		name, push, offsetof(struct auth_question, field), false \
	}
static const struct view_field user_fields[] = {
	QUESTION("name", view_push_given, user),
	QUESTION("vhost", view_push_given, vhost),
	QUESTION("address", view_push_given, address),
	QUESTION("is_admin", push_is_admin, tags),
	QUESTION("is_monitor", push_is_monitor, tags),
	{ NULL, NULL, 0, false },
};
static const struct view_type user_type = { .number = VIEW_USER,
					    .name = "user",
					    .fields = user_fields };

static const struct view_field object_fields[] = {
	QUESTION("kind", view_push_text, kind),
	QUESTION("name", view_push_given, name),
	QUESTION("vhost", view_push_given, vhost),
	{ NULL, NULL, 0, false },
};
static const struct view_type object_type = { .number = VIEW_OBJECT,
					      .name = "object",
					      .fields = object_fields };

struct auth_call {
	const struct rule *rule;
	const struct auth_login *login; /* one of both */
	const struct auth_question *question;
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

static void read_limit(lua_State *L, const char *function, const char *name,
		       uint32_t *out)
{
	int is_integer = 1;
	lua_Integer value = 0;

	if (lua_getfield(L, -1, name) == LUA_TNIL) {
		lua_pop(L, 1);
		return;
	}
	value = lua_tointegerx(L, -1, &is_integer);
	if (!is_integer || value < 0 || value > AUTH_LIMIT_MAX)
		luaL_error(L,
			   "%s returned a wrong 'limits.%s': an integer from 0 (no "
			   "limit) to %I",
			   function, name, (lua_Integer)AUTH_LIMIT_MAX);
	*out = (uint32_t)value;
	lua_pop(L, 1);
}

bool auth_read_limits(lua_State *L, const char *function, struct auth_limits *out)
{
	static const char *const names[] = { "max_connections", "max_channels",
					     "publish_rate", "publish_bytes", NULL };
	int type = lua_getfield(L, -1, "limits");

	if (type != LUA_TNIL && type != LUA_TTABLE)
		luaL_error(L, "%s returned wrong 'limits': a table, not a %s", function,
			   luaL_typename(L, -1));
	if (type == LUA_TTABLE) {
		read_only_see_through(L, lua_gettop(L));
		field_check_names(L, -1, "limits", names);
		read_limit(L, function, "max_connections", &out->connections);
		read_limit(L, function, "max_channels", &out->channels);
		read_limit(L, function, "publish_rate", &out->publish_rate);
		read_limit(L, function, "publish_bytes", &out->publish_bytes);
	}
	lua_pop(L, 1);
	return type == LUA_TTABLE;
}

/* The user on the top. */
static void read_identity(lua_State *L, const struct auth_login *login,
			  struct auth_identity *out)
{
	static const char *const names[] = { "name", "tags",   "configure", "write",
					     "read", "limits", NULL };
	struct slice name = login->user;

	field_check_names(L, -1, "the user that authenticate returned", names);
	if (lua_getfield(L, -1, "name") != LUA_TNIL)
		name = lua_type(L, -1) == LUA_TSTRING ? field_slice(L, -1)
						      : (struct slice){ 0 };
	if (!slice_is_name(name))
		luaL_error(L,
			   "authenticate returned a wrong 'name': 1 to %d bytes of "
			   "UTF-8 without white space",
			   NAME_LEN_MAX);
	memcpy(out->name, name.data, name.len);
	lua_pop(L, 1);
	read_tags(L, out);
	read_pattern(L, "configure", &out->patterns[AUTH_CONFIGURE]);
	read_pattern(L, "write", &out->patterns[AUTH_WRITE]);
	read_pattern(L, "read", &out->patterns[AUTH_READ]);
	auth_read_limits(L, "authenticate", &out->limits);
}

void auth_read_reason(lua_State *L, char out[AUTH_REASON_MAX])
{
	const char *reason = luaL_optstring(L, -1, "");

	if (reason[strspn(reason, " \t\r\n")] == '\0')
		reason = "a script refused it";
	if (script_hides(script_state_of(L), slice_from(reason)))
		reason = "a script refused it, for a reason with a password or a secret";
	snprintf(out, AUTH_REASON_MAX, "%s", reason);
}

/* The two results on the top. A reason without `false` is a slip that would let somebody
 * in. */
static void read_verdict(lua_State *L, const struct auth_call *c, const char *function,
			 const char *wanted)
{
	struct auth_decision *out = c->out;
	int type = lua_type(L, -2);
	bool is_refused = type == LUA_TBOOLEAN && !lua_toboolean(L, -2);
	bool is_identity = type == LUA_TTABLE && c->login;

	if (type != LUA_TNIL && type != LUA_TBOOLEAN && !is_identity)
		luaL_error(L, "%s must return %s, not a %s", function, wanted,
			   luaL_typename(L, -2));
	if (!lua_isnil(L, -1) && (!is_refused || lua_type(L, -1) != LUA_TSTRING))
		luaL_error(L,
			   "%s returned a second value, a %s: to refuse it must return "
			   "false and a reason, which is a text",
			   function, luaL_typename(L, -1));
	if (is_refused)
		auth_read_reason(L, out->reason);
	lua_pop(L, 1);
	if (is_identity) {
		read_only_see_through(L, lua_gettop(L));
		read_identity(L, c->login, &out->identity);
		out->has_identity = true;
	}
	if (type != LUA_TNIL)
		out->verdict = is_refused ? AUTH_REFUSE : AUTH_ALLOW;
}

static void push_own(lua_State *L, const struct rule *rule)
{
	lua_rawgeti(L, LUA_REGISTRYINDEX, rule->own.options);
	dry_run_push_state(L, rule->own.state);
}

/* authenticate (login, opts, state) -> nil, true, false and a reason, or a user */
static int l_authenticate(lua_State *L)
{
	const struct auth_call *c = lua_touserdata(L, 1);

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->rule->functions[RULE_AUTHENTICATE]);
	view_push(L, &login_type, c->login);
	push_own(L, c->rule);
	lua_call(L, 3, 2);
	script_set_place(script_state_of(L), rule_code_file(c->rule),
			 c->rule->authenticate_line);
	read_verdict(L, c, "authenticate",
		     "nil, true, false and a reason, or a table that is the user");
	return 0;
}

/* authorize (user, action, object, opts, state) -> nil, true, or false and a reason */
static int l_authorize(lua_State *L)
{
	const struct auth_call *c = lua_touserdata(L, 1);

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->rule->functions[RULE_DECIDE]);
	view_push(L, &user_type, c->question);
	lua_pushstring(L, c->question->action);
	view_push(L, &object_type, c->question);
	push_own(L, c->rule);
	lua_call(L, 5, 2);
	script_set_place(script_state_of(L), rule_code_file(c->rule),
			 c->rule->decide_line);
	read_verdict(L, c, "authorize", "nil, true, or false and a reason");
	return 0;
}

void auth_open(lua_State *L)
{
	view_open(L, &login_type);
	view_open(L, &user_type);
	view_open(L, &object_type);
}

static int ask_script(struct engine *e, struct rule *rule, struct auth_call *call,
		      struct use_call *asked, struct error *err)
{
	struct use use = rule->own;
	bool is_dry = asked->context && asked->context->is_dry;

	call->rule = rule;
	asked->use = &use;
	asked->ctx = call;
	/* Anybody may name a vhost in a login: none has an account of its own. */
	if (call->login)
		use.account = account_open(&e->current->script.accounts, rule->file,
					   (struct slice){ 0 });
	int rc = use_decide(e, asked, err);
	if (rc == TIDE_OK && call->out->verdict == AUTH_REFUSE && !is_dry)
		rule->stats.rejected++;
	return rc;
}

/* Ask each script that has the function. */
static int ask(struct engine *e, enum rule_function function, struct auth_call *call,
	       struct use_call *asked, struct error *err)
{
	struct auth_decision *out = call->out;
	const struct generation *g = e->current;

	*out = (struct auth_decision){ .verdict = AUTH_NONE };
	for (size_t i = 0; i < g->rule_count && out->verdict == AUTH_NONE; i++) {
		struct rule *rule = g->rules[i];

		if (rule->kind != SCRIPT_AUTH || rule->is_idle ||
		    rule->functions[function] == LUA_NOREF)
			continue;
		out->file = rule->file;
		out->model = rule->model;
		out->line = rule->model               ? rule->line
			    : function == RULE_DECIDE ? rule->decide_line
						      : rule->authenticate_line;
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
				  .body = l_authenticate };

	if (asked.address.len == 0)
		asked.address = SLICE("a Unix socket");
	if (asked.address.len > NAME_LEN_MAX)
		asked.address.len = NAME_LEN_MAX;
	return ask(e, RULE_AUTHENTICATE, &call, &asked, err);
}

int auth_authorize(struct engine *e, const struct auth_question *q,
		   struct auth_decision *out, struct error *err)
{
	struct auth_call call = { .question = q, .out = out };
	struct use_call asked = { .vhost = q->vhost,
				  .context = q->context,
				  .body = l_authorize };

	return ask(e, RULE_DECIDE, &call, &asked, err);
}
