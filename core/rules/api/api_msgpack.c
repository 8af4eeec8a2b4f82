#include "api_msgpack.h"

#include <lauxlib.h>

#include "base/msgpack.h"
#include "document.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"
#include "rules/sandbox/script.h"
#include "value.h"

/* decode (bytes [, { null = true }]) -> value, or nil and a message */
static int l_decode(lua_State *L)
{
	return value_decode(L, msgpack_read, "tide.msgpack.decode");
}

static void write_null(void *ctx)
{
	msgpack_put_nil(ctx);
}

static void write_boolean(void *ctx, bool b)
{
	msgpack_put_boolean(ctx, b);
}

static void write_integer(void *ctx, lua_Integer n)
{
	msgpack_put_integer(ctx, n);
}

static void write_number(void *ctx, double n)
{
	msgpack_put_number(ctx, n);
}

static void write_text(void *ctx, struct slice s)
{
	msgpack_put_text(ctx, s);
}

static void write_begin(void *ctx, bool is_array, size_t count)
{
	if (is_array)
		msgpack_put_array(ctx, (uint32_t)count);
	else
		msgpack_put_map(ctx, (uint32_t)count);
}

static void write_end(void *ctx, bool is_array)
{
}

static const struct value_format format = {
	.name = "MessagePack",
	.null = write_null,
	.boolean = write_boolean,
	.integer = write_integer,
	.number = write_number,
	.text = write_text,
	.name_text = write_text,
	.begin = write_begin,
	.end = write_end,
};

/* encode (value) -> bytes */
static int l_encode(lua_State *L)
{
	struct documents *d = script_state_of(L)->documents;

	luaL_checkany(L, 1);
	script_check(L);
	value_write(L, 1, &format, &d->out);
	field_push(L, buf_slice(&d->out));
	return 1;
}

void api_msgpack_add(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "decode", l_decode },
		{ "encode", l_encode },
		{ NULL, NULL },
	};

	lua_newtable(L);
	luaL_setfuncs(L, functions, 0);
	read_only_protect(L);
	lua_setfield(L, -2, "msgpack");
}
