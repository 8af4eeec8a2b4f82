#include "view.h"

#include <lauxlib.h>
#include <stdint.h>

#include "rules/sandbox/script.h"

struct view {
	const void *subject;
	uint64_t serial; /* of the call it was made in */
};

static const void *subject_of(lua_State *L, struct view *v, const struct view_type *type)
{
	if (!v)
		luaL_typeerror(L, 1, type->name);
	if (v->serial != script_state_of(L)->serial)
		luaL_error(L, "this '%s' has expired: it was good for one call only",
			   type->name);
	return v->subject;
}

/* Upvalues: the fields by name (light userdata), the type. The metatable is out
 * of the scripts' reach, so the first argument is known to be a view. */
static int l_index(lua_State *L)
{
	const struct view_type *type = lua_touserdata(L, lua_upvalueindex(2));
	const void *subject = subject_of(L, lua_touserdata(L, 1), type);

	lua_pushvalue(L, 2);
	lua_rawget(L, lua_upvalueindex(1));
	const struct view_field *field = lua_touserdata(L, -1);
	if (field) {
		field->push(L, subject);
		return 1;
	}
	return luaL_error(L, "there is no '%s.%s'; it has %s", type->name,
			  luaL_tolstring(L, 2, NULL),
			  lua_tostring(L, lua_upvalueindex(3)));
}

static int l_newindex(lua_State *L)
{
	return luaL_error(L, "'%s' is read-only here",
			  lua_tostring(L, lua_upvalueindex(1)));
}

static void push_fields(lua_State *L, const struct view_type *type)
{
	luaL_Buffer names;

	lua_newtable(L);
	for (const struct view_field *f = type->fields; f->name; f++) {
		lua_pushlightuserdata(L, (void *)f);
		lua_setfield(L, -2, f->name);
	}
	lua_pushlightuserdata(L, (void *)type);
	luaL_buffinit(L, &names);
	for (const struct view_field *f = type->fields; f->name; f++) {
		luaL_addstring(&names, f->name);
		luaL_addstring(&names, f[1].name ? " " : "");
	}
	luaL_pushresult(&names);
}

void view_open(lua_State *L, const struct view_type *type)
{
	lua_newtable(L);
	if (type->index) {
		lua_pushcfunction(L, type->index);
	} else {
		push_fields(L, type);
		lua_pushcclosure(L, l_index, 3);
	}
	lua_setfield(L, -2, "__index");
	if (type->pairs) {
		lua_pushcfunction(L, type->pairs);
		lua_setfield(L, -2, "__pairs");
	}
	lua_pushstring(L, type->name);
	lua_pushvalue(L, -1);
	lua_setfield(L, -3, "__name");
	lua_pushcclosure(L, type->newindex ? type->newindex : l_newindex, 1);
	lua_setfield(L, -2, "__newindex");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_rawsetp(L, LUA_REGISTRYINDEX, type);
}

void view_push(lua_State *L, const struct view_type *type, const void *subject)
{
	struct view *v = lua_newuserdatauv(L, sizeof(*v), 0);

	v->subject = subject;
	v->serial = script_state_of(L)->serial;
	lua_rawgetp(L, LUA_REGISTRYINDEX, type);
	lua_setmetatable(L, -2);
}

const void *view_check(lua_State *L, int idx, const struct view_type *type)
{
	struct view *v = lua_touserdata(L, idx);
	bool is_view = v && lua_getmetatable(L, idx);

	if (!is_view)
		luaL_typeerror(L, idx, type->name);
	lua_rawgetp(L, LUA_REGISTRYINDEX, type);
	if (!lua_rawequal(L, -1, -2))
		luaL_typeerror(L, idx, type->name);
	lua_pop(L, 2);
	return subject_of(L, v, type);
}
