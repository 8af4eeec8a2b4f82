#include "spec_declare.h"

#include <lauxlib.h>

#include "rules/engine/policy.h"
#include "rules/sandbox/field.h"

/* They stay on the stack. */
static struct slice text_of(lua_State *L, const char *name, const char *preset)
{
	lua_getfield(L, 2, name);
	return slice_from(luaL_optstring(L, -1, preset));
}

/* The table on the top, with values that are texts, numbers or booleans. */
static void read_options(lua_State *L, struct args *out)
{
	if (lua_isnil(L, -1))
		return;
	if (!lua_istable(L, -1))
		luaL_error(L, "the options must be a table of texts, by name");
	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
		const char *value = lua_isboolean(L, -1)
					    ? lua_toboolean(L, -1) ? "1" : "0"
					    : lua_tostring(L, -1);

		if (lua_type(L, -2) == LUA_TSTRING && value &&
		    args_add(out, slice_from(lua_tostring(L, -2)), slice_from(value)) ==
			    TIDE_OK)
			continue;
		args_deinit(out);
		luaL_error(L, "the options must be a table of texts, by name");
	}
}

static void push_options(lua_State *L, const struct args *options)
{
	lua_createtable(L, 0, (int)options->count);
	for (size_t i = 0; i < options->count; i++) {
		lua_pushstring(L, options->items[i].value);
		lua_setfield(L, -2, options->items[i].name);
	}
}

int spec_declare_ask(lua_State *L, struct engine *e, struct decision_context *context,
		     struct error *err)
{
	static const char *const names[] = { "kind", "name", "options", "vhost",
					     "user", "type", NULL };
	struct policy_call c = { .kind = NULL };
	int rc;

	(void)context; /* a policy decides live */
	luaL_checktype(L, 2, LUA_TTABLE);
	field_check_names(L, 2, "what is declared", names);
	c.kind = text_of(L, "kind", "queue").data;
	c.name = text_of(L, "name", "");
	c.vhost = text_of(L, "vhost", "/");
	c.user = text_of(L, "user", "");
	c.type = strcmp(c.kind, "exchange") == 0 ? text_of(L, "type", "direct").data
						 : NULL;
	luaL_argcheck(L, c.name.len > 0, 2, "name is missing");
	lua_getfield(L, 2, "options");
	read_options(L, &c.options);
	rc = policy_ask(e, &c, err);
	if (rc == TIDE_OK) {
		push_options(L, &c.options);
		lua_pushstring(L, c.files[0] ? c.files : NULL);
	}
	args_deinit(&c.options);
	return rc;
}
