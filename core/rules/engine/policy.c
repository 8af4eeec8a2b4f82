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

static void push_options(lua_State *L, const struct args *options)
{
	lua_createtable(L, 0, (int)options->count);
	for (size_t i = 0; i < options->count; i++) {
		const struct arg *a = &options->items[i];

		lua_pushlstring(L, a->value, a->value_len);
		lua_setfield(L, -2, a->name);
	}
}

/* Registry: the options that the script is given, and may change. */
static const char options_key;

static void push_what(lua_State *L, const void *ctx)
{
	const struct policy_call *c = ctx;

	lua_createtable(L, 0, 6);
	set_slice(L, "kind", slice_from(c->kind));
	set_slice(L, "type", slice_from(c->type ? c->type : ""));
	set_slice(L, "vhost", c->vhost);
	set_slice(L, "name", c->name);
	set_slice(L, "user", c->user);
	push_options(L, &c->options);
	lua_pushvalue(L, -1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &options_key);
	lua_setfield(L, -2, "options");
	read_only_protect(L);
}

/* Make the value on the top a text, as DECLARE would have it. */
static void make_text(lua_State *L, const char *name)
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
		luaL_error(L,
			   "the option '%s' must be a text, a number or a boolean, not "
			   "a %s",
			   name, luaL_typename(L, -1));
	lua_replace(L, -2);
}

/* The options in the table on the top, into c->next. */
static void read_options(lua_State *L, struct policy_call *c)
{
	args_deinit(&c->next);
	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
		struct slice value;

		if (lua_type(L, -2) != LUA_TSTRING)
			luaL_error(L, "the names of options are texts");
		make_text(L, lua_tostring(L, -2));
		value.data = lua_tolstring(L, -1, &value.len);
		if (args_add(&c->next, slice_from(lua_tostring(L, -2)), value) < 0)
			luaL_error(L, "one of the options is none, or too many");
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

static void tell_step(const struct hook_call *h, const struct policy_call *c,
		      const struct args *after, const char *rejected)
{
	const struct policy_step step = { .file = h->rule->file,
					  .model = h->rule->model,
					  .before = &c->options,
					  .after = after,
					  .rejected = rejected };

	if (c->watch && c->watch->on_step)
		c->watch->on_step(c->watch->ctx, &step);
}

static void take_options(const struct hook_call *h, struct policy_call *c)
{
	size_t len = strlen(c->files);

	tell_step(h, c, &c->next, NULL);
	if (is_same(&c->options, &c->next))
		return;
	args_deinit(&c->options);
	c->options = c->next;
	c->next = (struct args){ 0 };
	snprintf(c->files + len, sizeof(c->files) - len, "%s%s", len ? ", " : "",
		 h->file);
}

/* The options as a script leaves them that does not refuse. */
static void read_what(lua_State *L, const struct use_call *call, unsigned result)
{
	const struct hook_call *h = call->ctx;

	if (result == RESULT_FALSE)
		return;
	use_blame(L, call);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &options_key);
	read_options(L, h->ctx);
	take_options(h, h->ctx);
}

int policy_ask(struct engine *e, struct policy_call *c, struct error *err)
{
	const struct script_value what = { push_what, c };
	struct script_refusal refusal = { false, "" };
	struct hook_call h = { .kind = SCRIPT_DECLARE,
			       .given = { &what },
			       .take = read_what,
			       .ctx = c,
			       .refusal = &refusal };
	int rc;

	h.context = c->watch ? c->watch->context : NULL;
	h.subject.vhost = c->vhost;
	h.subject.user = c->user;
	*(c->type ? &h.subject.exchange : &h.subject.queue) = c->name;
	c->files[0] = '\0';
	rc = hook_run(e, &h, err);
	args_deinit(&c->next);
	if (rc < 0 || !refusal.is_refused)
		return rc;
	tell_step(&h, c, &c->options, refusal.reason);
	return error_set(err, TIDE_EREJECTED, "%s (%s)", refusal.reason, h.file);
}
