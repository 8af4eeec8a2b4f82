#include "policy.h"

#include <lauxlib.h>
#include <stdio.h>

#include "engine_private.h"
#include "hook.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"

static void set_slice(lua_State *L, const char *name, struct slice value)
{
	if (value.len == 0)
		return;
	field_push(L, value);
	lua_setfield(L, -2, name);
}

/* Push what the script gets. Its options are the table at `options`. */
static void push_what(lua_State *L, const struct policy_call *c, int options)
{
	lua_createtable(L, 0, 6);
	set_slice(L, "kind", slice_from(c->kind));
	set_slice(L, "type", slice_from(c->type ? c->type : ""));
	set_slice(L, "vhost", c->vhost);
	set_slice(L, "name", c->name);
	set_slice(L, "user", c->user);
	lua_pushvalue(L, options);
	lua_setfield(L, -2, "options");
	read_only_protect(L);
}

static void push_options(lua_State *L, const struct args *options)
{
	lua_createtable(L, 0, (int)options->count);
	for (size_t i = 0; i < options->count; i++) {
		const struct arg *a = &options->items[i];

		lua_pushlstring(L, a->value, a->value_len);
		lua_setfield(L, -2, a->name);
	}
}

/* Make the value on the top a text, as DECLARE would have it. */
static void make_text(lua_State *L, const struct hook_call *h, const char *name)
{
	int is_integer;
	lua_Integer n = lua_tointegerx(L, -1, &is_integer);

	if (lua_type(L, -1) == LUA_TSTRING)
		return;
	if (lua_isboolean(L, -1))
		lua_pushstring(L, lua_toboolean(L, -1) ? "1" : "0");
	else if (lua_type(L, -1) == LUA_TNUMBER && is_integer)
		lua_pushfstring(L, "%I", (LUAI_UACINT)n);
	else if (lua_type(L, -1) == LUA_TNUMBER)
		lua_pushstring(L, lua_tostring(L, -1));
	else
		hook_refuse(L, h,
			    lua_pushfstring(L,
					    "the option '%s' must be a text, a number or "
					    "a boolean, not a %s",
					    name, luaL_typename(L, -1)));
	lua_replace(L, -2);
}

/* The options in the table on the top, into c->next. */
static void read_options(lua_State *L, const struct hook_call *h, struct policy_call *c)
{
	args_deinit(&c->next);
	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
		struct slice value;

		if (lua_type(L, -2) != LUA_TSTRING)
			hook_refuse(L, h, "the names of options are texts");
		make_text(L, h, lua_tostring(L, -2));
		value.data = lua_tolstring(L, -1, &value.len);
		if (args_add(&c->next, slice_from(lua_tostring(L, -2)), value) < 0)
			hook_refuse(L, h, "one of the options is none, or too many");
	}
	args_sort(&c->next);
}

static bool is_same(const struct args *a, const struct args *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const char *other = args_get(b, a->items[i].name);

		if (!other || strcmp(other, a->items[i].value) != 0)
			return false;
	}
	return true;
}

static void tell(const struct hook_call *h, const struct policy_call *c,
		 const struct args *after)
{
	const struct policy_step step = { .file = h->rule->file,
					  .model = h->rule->model,
					  .before = &c->options,
					  .after = after,
					  .rejected = c->is_refused ? c->reason : NULL };

	if (c->watch && c->watch->on_step)
		c->watch->on_step(c->watch->ctx, &step);
}

static void take_options(const struct hook_call *h, struct policy_call *c)
{
	size_t len = strlen(c->files);

	tell(h, c, &c->next);
	if (is_same(&c->options, &c->next))
		return;
	args_deinit(&c->options);
	c->options = c->next;
	c->next = (struct args){ 0 };
	snprintf(c->files + len, sizeof(c->files) - len, "%s%s", len ? ", " : "",
		 h->file);
}

/* The results on the top: nothing, or false and a reason. */
static bool is_refusal(lua_State *L, const struct hook_call *h, struct policy_call *c)
{
	const char *reason;

	if ((lua_isnil(L, -2) || (lua_isboolean(L, -2) && lua_toboolean(L, -2))) &&
	    lua_isnil(L, -1))
		return false;
	if (!lua_isboolean(L, -2) || lua_toboolean(L, -2) ||
	    (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING))
		hook_refuse(L, h,
			    "declare must return nothing, or false and a reason to "
			    "refuse");
	reason = luaL_optstring(L, -1, "");
	snprintf(c->reason, sizeof(c->reason), "%s",
		 reason[0] ? reason : "a policy refuses it");
	return true;
}

/* declare (what, opts, state) -> nothing, or false and a reason */
static int l_declare(lua_State *L)
{
	struct hook_call *h = lua_touserdata(L, 1);
	struct policy_call *c = h->ctx;

	push_options(L, &c->options);
	hook_push(L, h);
	push_what(L, c, 2);
	hook_call_script(L, h, 1, 2);
	if (is_refusal(L, h, c)) {
		c->is_refused = h->is_decided = true;
		h->rule->stats.rejected += !(h->context && h->context->is_dry);
		tell(h, c, &c->options);
		return 0;
	}
	lua_settop(L, 2);
	read_options(L, h, c);
	take_options(h, c);
	return 0;
}

int policy_ask(struct engine *e, struct policy_call *c, struct error *err)
{
	struct hook_call h = { .kind = SCRIPT_DECLARE, .body = l_declare, .ctx = c };
	int rc;

	h.context = c->watch ? c->watch->context : NULL;
	h.subject.vhost = c->vhost;
	h.subject.user = c->user;
	*(c->type ? &h.subject.exchange : &h.subject.queue) = c->name;
	c->files[0] = '\0';
	c->is_refused = false;
	rc = hook_run(e, &h, err);
	args_deinit(&c->next);
	if (rc == TIDE_OK && c->is_refused)
		rc = error_set(err, TIDE_EREJECTED, "%s (%s)", c->reason, h.file);
	return rc;
}
