#include "api_json.h"

#include <jansson.h>
#include <lauxlib.h>
#include <stdbool.h>

#include "rules/sandbox/script.h"

/* Registry key: the metatable of what holds a document. */
static const char document_key;

static int l_free(lua_State *L)
{
	json_t **document = lua_touserdata(L, 1);

	json_decref(*document);
	*document = NULL;
	return 0;
}

/* What owns the document while it becomes values of Lua, which may raise. Pushed. */
static json_t **push_document(lua_State *L)
{
	json_t **document = lua_newuserdatauv(L, sizeof(*document), 0);

	*document = NULL;
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &document_key) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_createtable(L, 0, 1);
		lua_pushcfunction(L, l_free);
		lua_setfield(L, -2, "__gc");
		lua_pushvalue(L, -1);
		lua_rawsetp(L, LUA_REGISTRYINDEX, &document_key);
	}
	lua_setmetatable(L, -2);
	return document;
}

static bool is_deeper(json_t *value, int levels)
{
	const char *name;
	json_t *member;
	size_t i;

	if (levels == 0)
		return json_is_object(value) || json_is_array(value);
	json_object_foreach(value, name, member)
	{
		if (is_deeper(member, levels - 1))
			return true;
	}
	json_array_foreach(value, i, member)
	{
		if (is_deeper(member, levels - 1))
			return true;
	}
	return false;
}

static void push_value(lua_State *L, json_t *value);

static void push_object(lua_State *L, json_t *object)
{
	const char *name;
	json_t *member;

	lua_createtable(L, 0, (int)json_object_size(object));
	json_object_foreach(object, name, member)
	{
		push_value(L, member);
		lua_setfield(L, -2, name);
	}
}

static void push_array(lua_State *L, json_t *array)
{
	size_t count = json_array_size(array);

	lua_createtable(L, (int)count, 0);
	for (size_t i = 0; i < count; i++) {
		push_value(L, json_array_get(array, i));
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
}

static void push_value(lua_State *L, json_t *value)
{
	script_check(L);
	luaL_checkstack(L, 4, NULL);
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		push_object(L, value);
		break;
	case JSON_ARRAY:
		push_array(L, value);
		break;
	case JSON_STRING:
		lua_pushlstring(L, json_string_value(value), json_string_length(value));
		break;
	case JSON_INTEGER:
		lua_pushinteger(L, json_integer_value(value));
		break;
	case JSON_REAL:
		lua_pushnumber(L, json_real_value(value));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		lua_pushboolean(L, json_is_true(value));
		break;
	case JSON_NULL:
		lua_pushnil(L);
		break;
	}
}

int api_json_decode(lua_State *L)
{
	json_error_t why;
	size_t len;
	const char *text = luaL_checklstring(L, 1, &len);

	script_check(L);
	luaL_argcheck(L, len <= API_JSON_TEXT_MAX, 1, "the text has more than 256 KiB");
	lua_settop(L, 1);
	json_t **document = push_document(L);
	*document = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	/* Nothing of the text is repeated in a message: it may be a token. */
	lua_pushnil(L);
	if (!*document) {
		lua_pushfstring(L, "this is not JSON: wrong at byte %d", why.position);
		return 2;
	}
	if (is_deeper(*document, API_JSON_DEPTH_MAX)) {
		lua_pushfstring(L, "the JSON is nested deeper than %d levels",
				API_JSON_DEPTH_MAX);
		return 2;
	}
	push_value(L, *document);
	json_decref(*document);
	*document = NULL;
	return 1;
}
