#include "view.h"

#include <lauxlib.h>
#include <stdint.h>

#include "rules/sandbox/field.h"
#include "rules/sandbox/safe_lib.h"

struct view {
	const void *subject;
	uint64_t serial; /* of the call it was made in */
};

static struct script_view *view_of(lua_State *L, const struct view_type *type)
{
	return &script_state_of(L)->views[type->number];
}

static const void *subject_of(lua_State *L, struct view *v, const struct view_type *type)
{
	if (v->serial != script_state_of(L)->serial)
		luaL_error(L, "this '%s' has expired: it was good for one call only",
			   type->name);
	return v->subject;
}

/* There is no field of the name at 2. */
static int refuse_name(lua_State *L, const struct view_type *type)
{
	const char *name = safe_lib_tolstring(L, 2, NULL);

	return luaL_error(L, "there is no '%s.%s'; it has %s", type->name, name,
			  lua_tostring(L, lua_upvalueindex(3)));
}

/* Upvalues: the type, the fields by name (light userdata), their names. The metatable is
 * out of the scripts' reach, so the first argument is known to be a view. */
static int l_index(lua_State *L)
{
	const struct view_type *type = lua_touserdata(L, lua_upvalueindex(1));
	const void *subject = subject_of(L, lua_touserdata(L, 1), type);

	lua_pushvalue(L, 2);
	lua_rawget(L, lua_upvalueindex(2));
	const struct view_field *field = lua_touserdata(L, -1);
	if (field && !field->is_pure && script_state_of(L)->is_pure) {
		lua_pushfstring(L, "%s.%s", type->name, field->name);
		script_check_pure(L, lua_tostring(L, -1));
	}
	if (field) {
		field->push(L, (const char *)subject + field->offset);
		return 1;
	}
	return refuse_name(L, type);
}

static int l_newindex(lua_State *L)
{
	const struct view_type *type = lua_touserdata(L, lua_upvalueindex(1));

	return luaL_error(L, "'%s' is read-only here", type->name);
}

/* To the table and the list of names on the top. */
static void add_fields(lua_State *L, const struct view_field *f)
{
	for (; f && f->name; f++) {
		lua_pushlightuserdata(L, (void *)f);
		lua_setfield(L, -3, f->name);
		const char *names = lua_tostring(L, -1);
		lua_pushfstring(L, "%s%s%s", names, *names ? " " : "", f->name);
		lua_remove(L, -2);
	}
}

/* Set the metamethod `name`. */
static void set_method(lua_State *L, const struct view_type *type, const char *name,
		       lua_CFunction method)
{
	lua_pushlightuserdata(L, (void *)type);
	lua_pushcclosure(L, method, 1);
	lua_setfield(L, -2, name);
}

void view_open(lua_State *L, const struct view_type *type)
{
	lua_newtable(L);
	if (type->index) {
		set_method(L, type, "__index", type->index);
	} else {
		lua_pushlightuserdata(L, (void *)type);
		lua_newtable(L);
		lua_pushliteral(L, "");
		add_fields(L, type->more);
		add_fields(L, type->fields);
		lua_pushcclosure(L, l_index, 3);
		lua_setfield(L, -2, "__index");
	}
	if (type->pairs)
		set_method(L, type, "__pairs", type->pairs);
	set_method(L, type, "__newindex", type->newindex ? type->newindex : l_newindex);
	lua_pushstring(L, type->name);
	lua_setfield(L, -2, "__name");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	struct script_view *own = view_of(L, type);
	own->metatable = luaL_ref(L, LUA_REGISTRYINDEX);
	lua_pushboolean(L, 0);
	own->kept = luaL_ref(L, LUA_REGISTRYINDEX);
}

void view_push(lua_State *L, const struct view_type *type, const void *subject)
{
	struct view *v = lua_newuserdatauv(L, sizeof(*v), 0);

	v->subject = subject;
	v->serial = script_state_of(L)->serial;
	lua_rawgeti(L, LUA_REGISTRYINDEX, view_of(L, type)->metatable);
	lua_setmetatable(L, -2);
}

void view_push_kept(lua_State *L, const struct view_type *type, const void *subject,
		    bool *is_kept)
{
	int kept = view_of(L, type)->kept;

	if (*is_kept) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, kept);
		struct view *v = lua_touserdata(L, -1);
		if (v->subject == subject) {
			v->serial = script_state_of(L)->serial;
			return;
		}
	}
	view_push(L, type, subject);
	lua_pushvalue(L, -1);
	lua_rawseti(L, LUA_REGISTRYINDEX, kept);
	*is_kept = true;
}

const void *view_check(lua_State *L, int idx, const struct view_type *type)
{
	struct view *v = lua_touserdata(L, idx);

	if (!v || !lua_getmetatable(L, idx) ||
	    lua_rawgeti(L, LUA_REGISTRYINDEX, view_of(L, type)->metatable) == LUA_TNIL ||
	    !lua_rawequal(L, -1, -2))
		luaL_typeerror(L, idx, type->name);
	lua_pop(L, 2);
	return subject_of(L, v, type);
}

const void *view_self(lua_State *L)
{
	return subject_of(L, lua_touserdata(L, 1),
			  lua_touserdata(L, lua_upvalueindex(1)));
}

void view_push_slice(lua_State *L, const void *member)
{
	field_push(L, *(const struct slice *)member);
}

void view_push_given(lua_State *L, const void *member)
{
	if (((const struct slice *)member)->data)
		view_push_slice(L, member);
	else
		lua_pushnil(L);
}

void view_push_optional(lua_State *L, const void *member)
{
	if (((const struct slice *)member)->len)
		view_push_slice(L, member);
	else
		lua_pushnil(L);
}

void view_push_text(lua_State *L, const void *member)
{
	lua_pushstring(L, *(const char *const *)member);
}

void view_push_bool(lua_State *L, const void *member)
{
	lua_pushboolean(L, *(const bool *)member);
}

void view_push_uint(lua_State *L, const void *member)
{
	lua_pushinteger(L, *(const unsigned *)member);
}

void view_push_int64(lua_State *L, const void *member)
{
	lua_pushinteger(L, (lua_Integer) * (const int64_t *)member);
}
