#include "spec_declare.h"

#include <lauxlib.h>

#include "rules/engine/policy.h"
#include "rules/sandbox/field.h"
#include "spec_field.h"

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
	for (size_t i = 0; i < options->count; i++)
		spec_field_set_text(L, options->items[i].name, options->items[i].value);
}

int spec_declare_ask(lua_State *L, struct engine *e, struct error *err)
{
	static const char *const names[] = { "kind", "name", "options", "vhost",
					     "user", "type", NULL };
	struct policy_call c = { .kind = NULL };
	int rc;

	luaL_checktype(L, 2, LUA_TTABLE);
	field_check_names(L, 2, "what is declared", names);
	c.kind = spec_field_text(L, 2, "kind", "queue");
	c.name = spec_field_slice(L, 2, "name", "");
	c.vhost = spec_field_slice(L, 2, "vhost", "/");
	c.user = spec_field_slice(L, 2, "user", "");
	c.type = strcmp(c.kind, "exchange") == 0 ? spec_field_text(L, 2, "type", "direct")
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
