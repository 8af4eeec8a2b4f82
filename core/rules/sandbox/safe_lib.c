#include "safe_lib.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "read_only.h"
#include "script.h"

int safe_lib_call_original(lua_State *L)
{
	return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

static int l_checked(lua_State *L)
{
	script_check(L);
	return safe_lib_call_original(L);
}

/* The hook of an overrun raises at each instruction anyway; this check spares a
 * script that catches it the instructions in between. */
static int l_pcall(lua_State *L)
{
	script_check(L);
	int results = safe_lib_call_original(L);
	script_check(L);
	return results;
}

/* The message handler of a script's xpcall, which is the upvalue. Lua handles the
 * error that a hook raised while the hook still counts as running, and runs no
 * hook inside a hook: a script's handler could not be interrupted there. */
static int l_handle(lua_State *L)
{
	const struct script_state *s = script_state_of(L);

	if (s->fault[0] || watchdog_has_fired(s->watchdog))
		return 1;
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
	return lua_gettop(L);
}

static int l_xpcall(lua_State *L)
{
	luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_pushvalue(L, 2);
	lua_pushcclosure(L, l_handle, 1);
	lua_replace(L, 2);
	return l_pcall(L);
}

const char safe_lib_stand_in = 0;

bool safe_lib_call_stand_in(lua_State *L, const char *name)
{
	if (!lua_istable(L, 1) || !lua_getmetatable(L, 1))
		return false;
	if (lua_rawgetp(L, -1, &safe_lib_stand_in) == LUA_TNIL) {
		lua_pop(L, 2);
		return false;
	}
	lua_pop(L, 1);
	lua_getfield(L, -1, name);
	lua_replace(L, -2);
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
	return true;
}

/* What a view shows may be read. */
static int l_rawget(lua_State *L)
{
	script_check(L);
	if (lua_gettop(L) >= 2 && read_only_see_through(L, 1)) {
		lua_settop(L, 2);
		read_only_see_through(L, 2); /* a key of pairs */
		lua_rawget(L, 1);
		read_only_show(L);
		return 1;
	}
	return safe_lib_call_stand_in(L, "rawget") ? lua_gettop(L)
						   : safe_lib_call_original(L);
}

static int l_rawlen(lua_State *L)
{
	script_check(L);
	read_only_see_through(L, 1);
	return safe_lib_call_stand_in(L, "rawlen") ? lua_gettop(L)
						   : safe_lib_call_original(L);
}

/* The library's pairs() would return its own `next`, which checks no budget. */
int safe_lib_next(lua_State *L)
{
	script_check(L);
	if (safe_lib_call_stand_in(L, "next"))
		return lua_gettop(L);
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 2);
	bool is_view = read_only_see_through(L, 1);
	if (is_view)
		read_only_see_through(L, 2);
	if (!lua_next(L, 1)) {
		lua_pushnil(L);
		return 1;
	}
	for (int i = 0; is_view && i < 2; i++) {
		lua_insert(L, -2);
		read_only_show(L); /* the key, then the value */
	}
	return 2;
}

static int l_pairs(lua_State *L)
{
	script_check(L);
	luaL_checkany(L, 1);
	if (luaL_getmetafield(L, 1, "__pairs") != LUA_TNIL) {
		lua_pushvalue(L, 1);
		lua_call(L, 1, 3);
		return 3;
	}
	lua_pushcfunction(L, safe_lib_next);
	lua_pushvalue(L, 1);
	lua_pushnil(L);
	return 3;
}

/* table -> a copy of what `pairs` finds in it */
static int l_unfold(lua_State *L)
{
	enum { TABLE = 1, COPY, NEXT, OF, KEY };

	lua_settop(L, TABLE);
	lua_newtable(L);
	lua_pushcfunction(L, l_pairs);
	lua_pushvalue(L, TABLE);
	lua_call(L, 1, 3);
	for (;;) {
		lua_pushvalue(L, NEXT);
		lua_pushvalue(L, OF);
		lua_pushvalue(L, KEY);
		lua_call(L, 2, 2);
		if (lua_isnil(L, -2))
			break;
		lua_pushvalue(L, -2);
		lua_replace(L, KEY);
		lua_rawset(L, COPY);
	}
	lua_settop(L, COPY);
	return 1;
}

void safe_lib_unfold(lua_State *L, int idx)
{
	idx = lua_absindex(L, idx);
	if (read_only_see_through(L, idx) || !lua_getmetatable(L, idx))
		return;
	bool is_stand_in = lua_rawgetp(L, -1, &safe_lib_stand_in) != LUA_TNIL;
	lua_pop(L, 2);
	if (!is_stand_in)
		return;
	lua_pushcfunction(L, l_unfold);
	lua_pushvalue(L, idx);
	lua_call(L, 1, 1);
	lua_replace(L, idx);
}

static int l_rep(lua_State *L)
{
	size_t len, separator_len = 0;

	script_check(L);
	luaL_checklstring(L, 1, &len);
	lua_Integer n = luaL_checkinteger(L, 2);
	luaL_optlstring(L, 3, "", &separator_len);
	if (n > 0 && len + separator_len > SAFE_STRING_MAX / (lua_Unsigned)n)
		return luaL_error(L, "string.rep: the result is over %d bytes",
				  SAFE_STRING_MAX);
	return safe_lib_call_original(L);
}

/* The bytes of all arguments that are texts: a text of digits is read for each
 * argument that is to be a number, however often it is given. */
static size_t text_bytes(lua_State *L)
{
	size_t sum = 0;

	for (int i = lua_gettop(L); i > 0; i--)
		sum += lua_type(L, i) == LUA_TSTRING ? lua_rawlen(L, i) : 0;
	return sum;
}

/* pack (format, ...): "c1000000000" fills byte by byte. */
static int l_pack(lua_State *L)
{
	unsigned long long sum = 0;

	script_check(L);
	const char *format = luaL_checkstring(L, 1);
	for (char *end; *format; format++) {
		if (*format < '0' || *format > '9')
			continue;
		unsigned long long n = strtoull(format, &end, 10);
		sum = n > SAFE_STRING_MAX ? n : sum + n;
		if (sum > SAFE_STRING_MAX)
			return luaL_error(L, "string.pack: the result is over %d bytes",
					  SAFE_STRING_MAX);
		format = end - 1;
	}
	if (text_bytes(L) > SCRIPT_STRING_MAX)
		return luaL_error(L, "string.pack: the texts are over %d bytes",
				  (int)SCRIPT_STRING_MAX);
	return safe_lib_call_original(L);
}

/* max, min, char: any number of numbers, each of which may be given as a text. */
static int l_of_numbers(lua_State *L)
{
	script_check(L);
	for (int i = lua_gettop(L); i > 0; i--) {
		if (lua_type(L, i) != LUA_TSTRING)
			continue;
		script_check(L);
		size_t size = lua_stringtonumber(L, lua_tostring(L, i));
		if (size > 0 && size == lua_rawlen(L, i) + 1) {
			lua_replace(L, i);
			continue;
		}
		lua_pop(L, size > 0); /* up to a zero byte, it is a number */
		luaL_argerror(L, i, "number expected, got string");
	}
	return safe_lib_call_original(L);
}

/* Of what luaL_tolstring would show the address. */
static bool has_address(lua_State *L, int idx)
{
	int type = lua_type(L, idx);

	return type != LUA_TNONE && type != LUA_TNIL && type != LUA_TBOOLEAN &&
	       type != LUA_TNUMBER && type != LUA_TSTRING;
}

const char *safe_lib_tolstring(lua_State *L, int idx, size_t *len)
{
	idx = lua_absindex(L, idx);
	if (!has_address(L, idx))
		return luaL_tolstring(L, idx, len);
	if (luaL_getmetafield(L, idx, "__tostring") != LUA_TNIL) {
		lua_pop(L, 1);
		return luaL_tolstring(L, idx, len);
	}
	int type = luaL_getmetafield(L, idx, "__name");
	if (type != LUA_TNIL && type != LUA_TSTRING)
		lua_pop(L, 1);
	if (type != LUA_TSTRING)
		lua_pushstring(L, luaL_typename(L, idx));
	return lua_tolstring(L, -1, len);
}

static int l_tostring(lua_State *L)
{
	script_check(L);
	luaL_checkany(L, 1);
	safe_lib_tolstring(L, 1, NULL);
	return 1;
}

/* Few arguments, short, without metamethods or addresses; for them the library's own
 * errors tell the argument's number. */
#define FORMAT_ARGUMENTS 32
#define FORMAT_BYTES 65536
static bool is_simple_format(lua_State *L)
{
	int top = lua_gettop(L);

	for (int i = 2; i <= top && i <= FORMAT_ARGUMENTS; i++) {
		if (has_address(L, i))
			return false;
	}
	size_t len = 0;
	const char *format =
		lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &len) : "";
	return top <= FORMAT_ARGUMENTS && text_bytes(L) <= FORMAT_BYTES &&
	       !memchr(format, 'p', len);
}

/* Push what the conversion at `at` makes of argument `arg`; gives its length. */
static size_t push_conversion(lua_State *L, const char *at, const char *end, int arg,
			      int arguments)
{
	size_t len = 1 + strspn(at + 1, "-+#0 .123456789");

	len += at + len < end;
	if (arg > arguments)
		luaL_argerror(L, arg, "no value");
	if (at[len - 1] == 'q' && lua_type(L, arg) == LUA_TSTRING &&
	    lua_rawlen(L, arg) > SAFE_STRING_MAX)
		luaL_error(L, "string.format: '%%q' of over %d bytes", SAFE_STRING_MAX);
	if (at[len - 1] == 'p')
		luaL_error(L, "string.format: no '%%p': a script sees no addresses");
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_pushlstring(L, at, len);
	if (at[len - 1] == 's')
		safe_lib_tolstring(L, arg, NULL);
	else
		lua_pushvalue(L, arg);
	lua_call(L, 2, 1);
	return len;
}

/* Formats one conversion at a time, and checks the budgets between them. */
static int l_format(lua_State *L)
{
	luaL_Buffer out;
	size_t len;
	int arg = 1;

	script_check(L);
	if (is_simple_format(L))
		return safe_lib_call_original(L);
	const char *at = luaL_checklstring(L, 1, &len), *end = at + len, *percent;
	int arguments = lua_gettop(L);
	luaL_buffinit(L, &out);
	for (; (percent = memchr(at, '%', (size_t)(end - at))); at = percent + len) {
		script_check(L);
		luaL_addlstring(&out, at, (size_t)(percent - at));
		len = 2;
		if (percent + 1 < end && percent[1] == '%') {
			luaL_addchar(&out, '%');
		} else {
			len = push_conversion(L, percent, end, ++arg, arguments);
			luaL_addvalue(&out);
		}
	}
	luaL_addlstring(&out, at, (size_t)(end - at));
	luaL_pushresult(&out);
	return 1;
}

void safe_lib_wrap(lua_State *L, int idx, const char *name, lua_CFunction function)
{
	idx = lua_absindex(L, idx);
	lua_getfield(L, idx, name);
	lua_pushcclosure(L, function, 1);
	lua_setfield(L, idx, name);
}

/* Every function in the table at `idx`. One with upvalues would not find them. */
static void wrap_all(lua_State *L, int idx)
{
	idx = lua_absindex(L, idx);
	for (lua_pushnil(L); lua_next(L, idx) != 0; lua_settop(L, idx + 1)) {
		if (!lua_iscfunction(L, -1) || lua_getupvalue(L, -1, 1))
			continue;
		lua_pushcclosure(L, l_checked, 1);
		lua_pushvalue(L, -2);
		lua_insert(L, -2);
		lua_rawset(L, idx); /* an existing key: the traversal goes on */
	}
}

void safe_lib_install(lua_State *L, int idx)
{
	static const struct {
		const char *library, *name;
		lua_CFunction function;
	} replaced[] = {
		{ "_G", "pcall", l_pcall },       { "_G", "xpcall", l_xpcall },
		{ "_G", "next", safe_lib_next },  { "_G", "pairs", l_pairs },
		{ "_G", "tostring", l_tostring }, { "_G", "rawget", l_rawget },
		{ "_G", "rawlen", l_rawlen },     { "string", "rep", l_rep },
		{ "string", "pack", l_pack },     { "string", "char", l_of_numbers },
		{ "string", "format", l_format }, { "math", "max", l_of_numbers },
		{ "math", "min", l_of_numbers },  { "utf8", "char", l_of_numbers },
	};
	static const char *const libraries[] = { "_G", "string", "table", "math",
						 "utf8" };

	/* The special ones first, each with its original; then all that are left. */
	for (size_t i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++) {
		lua_getfield(L, idx, replaced[i].library);
		safe_lib_wrap(L, -1, replaced[i].name, replaced[i].function);
		lua_pop(L, 1);
	}
	safe_meta_install(L, idx);
	lua_getfield(L, idx, "string");
	pattern_lib_install(L, -1);
	lua_getfield(L, idx, "table");
	safe_table_install(L, -1);
	lua_pop(L, 2);
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		lua_getfield(L, idx, libraries[i]);
		wrap_all(L, -1);
		lua_pop(L, 1);
	}
}
