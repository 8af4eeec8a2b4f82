#include "api_json.h"

#include <lauxlib.h>

#include "base/json.h"
#include "document.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"
#include "rules/sandbox/script.h"
#include "value.h"

/* decode (text [, { null = true }]) -> value, or nil and a message. A null becomes nil,
 * or tide.json.null. */
static int l_decode(lua_State *L)
{
	return value_decode(L, json_tape_read, "tide.json.decode");
}

static void write_null(void *ctx)
{
	json_nil(ctx);
}

static void write_boolean(void *ctx, bool b)
{
	json_written(ctx, b ? SLICE("true") : SLICE("false"));
}

static void write_integer(void *ctx, lua_Integer n)
{
	json_int(ctx, n);
}

static void write_number(void *ctx, double n)
{
	json_number(ctx, n);
}

static void write_text(void *ctx, struct slice s)
{
	json_slice(ctx, s);
}

static void write_name(void *ctx, struct slice s)
{
	json_key_slice(ctx, s);
}

static void write_begin(void *ctx, bool is_array, size_t count)
{
	if (is_array)
		json_array_begin(ctx);
	else
		json_object_begin(ctx);
}

static void write_end(void *ctx, bool is_array)
{
	if (is_array)
		json_array_end(ctx);
	else
		json_object_end(ctx);
}

static const struct value_format format = {
	.name = "JSON",
	.null = write_null,
	.boolean = write_boolean,
	.integer = write_integer,
	.number = write_number,
	.text = write_text,
	.name_text = write_name,
	.begin = write_begin,
	.end = write_end,
	.is_utf8 = true,
};

struct slice api_json_text(lua_State *L, int idx)
{
	struct documents *d = script_state_of(L)->documents;
	struct json out = { .out = &d->out };

	value_write(L, idx, &format, &out);
	return buf_slice(&d->out);
}

/* encode (value) -> text */
static int l_encode(lua_State *L)
{
	luaL_checkany(L, 1);
	script_check(L);
	field_push(L, api_json_text(L, 1));
	return 1;
}

/* array (table) -> the table, which is written as an array even when it is empty */
static int l_array(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	if (!value_mark_array(L))
		return luaL_error(L, "this table has a metatable already");
	return 1;
}

void api_json_add(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "decode", l_decode },
		{ "encode", l_encode },
		{ "array", l_array },
		{ NULL, NULL },
	};

	lua_newtable(L);
	luaL_setfuncs(L, functions, 0);
	value_push_null(L);
	lua_setfield(L, -2, "null");
	read_only_protect(L);
	lua_setfield(L, -2, "json");
}
