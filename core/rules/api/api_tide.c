#include "api_tide.h"

#include <ctype.h>
#include <inttypes.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "api_crypto.h"
#include "api_match.h"
#include "api_time.h"
#include "base/args.h"
#include "base/duration.h"
#include "base/bytes.h"
#include "decision_context.h"
#include "document.h"
#include "host/log.h"
#include "host/machine.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/hints.h"
#include "rules/sandbox/read_only.h"
#include "rules/sandbox/safe_lib.h"
#include "rules/sandbox/sandbox.h"
#include "rules/sandbox/script.h"
#include "rules/sandbox/source.h"

/* check_option (kind, name, value) -> true; or nil and why it cannot be set. The check is
 * read when the function is called; NULL: every option may be set. */
static int l_check_option(lua_State *L)
{
	static const char *const kinds[] = { "queue", "topic", "exchange", NULL };
	api_option_fn *const *check = lua_touserdata(L, lua_upvalueindex(1));
	const char *kind = kinds[luaL_checkoption(L, 1, NULL, kinds)];
	struct arg option = { .name = (char *)luaL_checkstring(L, 2) };
	struct error err;

	option.value = (char *)luaL_checklstring(L, 3, &option.value_len);
	if (*check && (*check)(kind, &option, &err) < 0) {
		lua_pushnil(L);
		lua_pushstring(L, err.text);
		return 2;
	}
	lua_pushboolean(L, 1);
	return 1;
}

/* setting (name [, default]) -> text, or the default, or nil */
static int l_setting(lua_State *L)
{
	const struct args *settings = lua_touserdata(L, lua_upvalueindex(1));
	const char *value = args_get(settings, luaL_checkstring(L, 1));

	lua_settop(L, 2);
	if (value)
		lua_pushstring(L, value);
	return 1;
}

/* Add the function to `tide`, which is on the top, with what it reads as its upvalue. */
static void add_reader(lua_State *L, const char *name, lua_CFunction function,
		       const void *subject)
{
	lua_pushlightuserdata(L, (void *)(uintptr_t)subject);
	lua_pushcclosure(L, function, 1);
	lua_setfield(L, -2, name);
}

void api_object_make(lua_State *L)
{
	lua_pushvalue(L, lua_upvalueindex(2));
	lua_setmetatable(L, -2);
}

void *api_object_check(lua_State *L)
{
	void *object = lua_touserdata(L, 1);

	if (object && lua_getmetatable(L, 1) &&
	    lua_rawequal(L, -1, lua_upvalueindex(2))) {
		lua_pop(L, 1);
		return object;
	}
	lua_getfield(L, lua_upvalueindex(2), "__name");
	luaL_error(L, "call this as a method of a %s, with ':'", lua_tostring(L, -1));
	return NULL;
}

void api_object_add(lua_State *L, struct api_tide *t, const struct api_object *o)
{
	lua_newtable(L); /* the metatable */
	lua_newtable(L);
	lua_pushlightuserdata(L, t);
	lua_pushvalue(L, -3);
	luaL_setfuncs(L, o->methods, 2);
	read_only_protect(L);
	lua_setfield(L, -2, "__index");
	lua_pushstring(L, o->type);
	lua_setfield(L, -2, "__name");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_pushlightuserdata(L, t);
	lua_insert(L, -2);
	lua_pushcclosure(L, o->create, 2);
	lua_setfield(L, -2, o->type);
}

static const char metatable_key; /* in the registry */

static bool is_name(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.data[i];

		if (!isalnum(c) && c != '_' && c != '-')
			return false;
	}
	return name.len > 0 && name.len <= API_USE_NAME_MAX;
}

static int line_of_caller(lua_State *L)
{
	lua_Debug where;

	if (!lua_getstack(L, 1, &where) || !lua_getinfo(L, "l", &where))
		return 1;
	return where.currentline > 0 ? where.currentline : 1;
}

/* use (name [, settings]) -> what the file returns */
static int l_use(lua_State *L)
{
	struct api_use *use;

	luaL_checkstring(L, 1);
	luaL_argcheck(L, is_name(field_slice(L, 1)), 1,
		      "not the name of a script: write it as in DECLARE, without folder "
		      "and .lua");
	if (lua_isnoneornil(L, 2)) {
		lua_settop(L, 1);
		lua_newtable(L);
	}
	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	if (!script_state_of(L)->is_loading)
		return luaL_error(L, "tide.use is for the end of a file: return "
				     "tide.use(\"name\", { … })");
	use = lua_newuserdatauv(L, sizeof(*use), 1);
	strcpy(use->name, lua_tostring(L, 1));
	use->line = line_of_caller(L);
	lua_pushvalue(L, 2);
	lua_setiuservalue(L, -2, 1);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
	lua_setmetatable(L, -2);
	return 1;
}

/* Add it to the table on the top. */
static void api_use_add(lua_State *L)
{
	lua_createtable(L, 0, 2);
	lua_pushliteral(L, "tide.use");
	lua_setfield(L, -2, "__name");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
	lua_pushcfunction(L, l_use);
	lua_setfield(L, -2, "use");
}

const struct api_use *api_use_at_top(lua_State *L)
{
	const struct api_use *use = NULL;

	if (lua_type(L, -1) != LUA_TUSERDATA || !lua_getmetatable(L, -1))
		return NULL;
	lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
	if (lua_rawequal(L, -1, -2))
		use = lua_touserdata(L, -3);
	lua_pop(L, 2);
	return use;
}

void api_use_push_settings(lua_State *L)
{
	lua_getiuservalue(L, -1, 1);
}

#define LOG_LINE_MAX 1000

static struct api_tide *self(lua_State *L)
{
	return lua_touserdata(L, lua_upvalueindex(1));
}

int64_t api_tide_now_ms(const struct api_tide *t)
{
	return t->is_clock_fixed ? t->fixed_now_ms : machine_clock_ms(CLOCK_REALTIME);
}

int64_t api_tide_call_ms(lua_State *L, const struct api_tide *t)
{
	const struct decision_context *c = decision_context_of(L);

	return c && c->now_ms ? c->now_ms : api_tide_now_ms(t);
}

/* now () -> milliseconds since 1970 */
static int l_now(lua_State *L)
{
	script_check_pure(L, "tide.now()");
	lua_pushinteger(L, api_tide_call_ms(L, self(L)));
	return 1;
}

/* duration (text) -> milliseconds, or nil and a message */
static int l_duration(lua_State *L)
{
	const char *text = luaL_checkstring(L, 1);
	int64_t ms;

	if (duration_parse(field_slice(L, 1), &ms) != TIDE_OK) {
		lua_pushnil(L);
		lua_pushfstring(L, "'%s' is not a duration; " FIELD_DURATIONS, text);
		return 2;
	}
	lua_pushinteger(L, ms);
	return 1;
}

/* hash (text) -> integer, 0 .. 2^63-1, the same in every process and version */
static int l_hash(lua_State *L)
{
	size_t len;
	const char *text = luaL_checklstring(L, 1, &len);

	lua_pushinteger(L, (lua_Integer)(source_hash(text, len) >> 1));
	return 1;
}

/* The sequence that the call under way draws from. */
static uint64_t *sequence(lua_State *L)
{
	struct decision_context *c = decision_context_of(L);

	return c && c->has_random ? &c->random_state : &self(L)->random_state;
}

/* is_dry_run () -> true while EXPLAIN asks: nothing is to be remembered */
static int l_is_dry_run(lua_State *L)
{
	lua_pushboolean(L, decision_context_is_dry(L));
	return 1;
}

/* random () -> 0 <= x < 1; random (n) -> 1 .. n; random (m, n) -> m .. n */
static int l_random(lua_State *L)
{
	uint64_t *state = sequence(L);

	script_check_pure(L, "tide.random()");
	if (lua_gettop(L) == 0) {
		lua_pushnumber(L, (lua_Number)(random_next(state) >> 11) * 0x1p-53);
		return 1;
	}
	bool has_low = lua_gettop(L) > 1;
	lua_Integer low = has_low ? luaL_checkinteger(L, 1) : 1;
	lua_Integer high = luaL_checkinteger(L, has_low ? 2 : 1);
	luaL_argcheck(L, low <= high, has_low ? 2 : 1, "the interval is empty");
	uint64_t offset = random_up_to(state, (uint64_t)high - (uint64_t)low);
	lua_pushinteger(L, (lua_Integer)((uint64_t)low + offset));
	return 1;
}

/* A name of an address at `idx`; '-' is the empty one, as on the wire. */
static void check_address(lua_State *L, int idx, const char *name)
{
	struct slice text;

	luaL_checktype(L, idx, LUA_TSTRING);
	text = field_slice(L, idx);
	if (!slice_is_name(text))
		luaL_error(L,
			   "the %s of tide.dead_letter must be 1 to %d bytes of UTF-8 "
			   "without white space",
			   name, NAME_LEN_MAX);
}

/* dead_letter (exchange [, key]) -> what a retry script returns */
static int l_dead_letter(lua_State *L)
{
	lua_settop(L, 2);
	check_address(L, 1, "exchange");
	if (!lua_isnil(L, 2))
		check_address(L, 2, "key");
	lua_createtable(L, 0, 2);
	lua_insert(L, 1);
	lua_setfield(L, 1, "key");
	lua_setfield(L, 1, "exchange");
	return 1;
}

/* uuid () -> text: version 7 of RFC 9562. Its random bits are those of tide.random: a
 * spec repeats them, and candidate rules get the same. */
static int l_uuid(lua_State *L)
{
	uint64_t *state = sequence(L);
	char text[37];

	script_check_pure(L, "tide.uuid()");
	uint64_t ms = (uint64_t)api_tide_call_ms(L, self(L)) & UINT64_C(0xffffffffffff);
	uint64_t high = random_next(state), low = random_next(state);
	snprintf(text, sizeof(text), "%08x-%04x-7%03x-%04x-%012" PRIx64,
		 (unsigned)(ms >> 16), (unsigned)(ms & 0xffff), (unsigned)(high & 0xfff),
		 (unsigned)(low >> 48 & 0x3fff) | 0x8000, low & UINT64_C(0xffffffffffff));
	lua_pushlstring(L, text, sizeof(text) - 1);
	return 1;
}

/* May a line be written in this second? Tells also of those that were left out in the
 * last. */
static bool may_log(struct api_tide *t)
{
	int64_t second = (int64_t)(uv_hrtime() / 1000000000);

	if (second != t->log_second) {
		if (t->log_lines > API_TIDE_LOG_LINES_PER_SECOND)
			log_warn("%s: %u lines of scripts were not logged", t->about,
				 t->log_lines - API_TIDE_LOG_LINES_PER_SECOND);
		t->log_second = second;
		t->log_lines = 0;
	}
	return t->log_lines++ < API_TIDE_LOG_LINES_PER_SECOND;
}

/* Write the arguments from `first` on, as print would. */
static void write_line(lua_State *L, enum log_level level, int first)
{
	struct api_tide *t = self(L);
	bool is_logged = log_is_on(level) && may_log(t);

	if (!is_logged && !t->on_line)
		return;
	int last = lua_gettop(L);
	luaL_checkstack(L, 2 * last + 4, NULL); /* two for each */
	luaL_where(L, 1);
	for (int i = first; i <= last; i++) {
		script_check(L);
		safe_lib_tolstring(L, i, NULL);
		lua_pushstring(L, i < last ? " " : "");
	}
	lua_concat(L, lua_gettop(L) - last);
	if (script_hides(script_state_of(L), field_slice(L, -1))) {
		luaL_where(L, 1);
		lua_pushliteral(L, "this line has a password or a secret in it");
		lua_concat(L, 2);
	}
	if (t->on_line)
		t->on_line(t->on_line_ctx, level, lua_tostring(L, -1));
	if (is_logged)
		log_write_each(level, "%s%s: %.*s", t->about,
			       decision_context_is_dry(L) ? " (dry run)" : "",
			       LOG_LINE_MAX, lua_tostring(L, -1));
}

/* Upvalues: the api_tide, the level, the first argument that is written. */
static int l_log(lua_State *L)
{
	write_line(L, (enum log_level)lua_tointeger(L, lua_upvalueindex(2)),
		   (int)lua_tointeger(L, lua_upvalueindex(3)));
	return 0;
}

static void push_log(lua_State *L, struct api_tide *t, enum log_level level, int first)
{
	lua_pushlightuserdata(L, t);
	lua_pushinteger(L, level);
	lua_pushinteger(L, first);
	lua_pushcclosure(L, l_log, 3);
}

/* Push tide.log: one table for all files, so read-only. A call of it is tide.log.info,
 * with the table as an additional first argument. */
static void push_logs(lua_State *L, struct api_tide *t)
{
	static const struct {
		const char *name;
		enum log_level level;
	} logs[] = { { "debug", LOG_DEBUG },
		     { "info", LOG_INFO },
		     { "warn", LOG_WARN },
		     { "error", LOG_ERROR } };

	lua_newtable(L);
	for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
		push_log(L, t, logs[i].level, 1);
		lua_setfield(L, -2, logs[i].name);
	}
	read_only_protect(L);
	lua_getmetatable(L, -1);
	push_log(L, t, LOG_INFO, 2);
	lua_setfield(L, -2, "__call");
	lua_pop(L, 1);
}

/* A name that `tide`, on the top, or a table in it does not have is an error. */
static void guard_names(lua_State *L)
{
	char name[64];

	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
		if (!lua_istable(L, -1))
			continue;
		snprintf(name, sizeof(name), "tide.%s", lua_tostring(L, -2));
		hints_guard(L, name, HINTS_REFUSE);
	}
	hints_guard(L, "tide", HINTS_REFUSE);
}

void api_tide_open_clock(lua_State *L, struct api_tide *t)
{
	static const luaL_Reg functions[] = {
		{ "duration", l_duration },
		{ "now", l_now },
		{ NULL, NULL },
	};

	lua_newtable(L);
	lua_pushlightuserdata(L, t);
	luaL_setfuncs(L, functions, 1);
	hints_guard(L, "tide", HINTS_REFUSE);
	sandbox_add_global(L, "tide");
}

void api_tide_open(lua_State *L, struct api_tide *t)
{
	static const luaL_Reg functions[] = {
		{ "dead_letter", l_dead_letter },
		{ "duration", l_duration },
		{ "hash", l_hash },
		{ "now", l_now },
		{ "random", l_random },
		{ "uuid", l_uuid },
		{ "is_dry_run", l_is_dry_run },
		{ NULL, NULL },
	};
	static const char *const names[][2] = { { "BURY", API_TIDE_BURY },
						{ "DEAD_LETTER", API_TIDE_DEAD_LETTER },
						{ "DROP", API_TIDE_DROP },
						{ NULL, NULL } };

	script_state_of(L)->number = ++t->states;
	lua_newtable(L);
	lua_pushlightuserdata(L, t);
	luaL_setfuncs(L, functions, 1);
	push_logs(L, t);
	lua_setfield(L, -2, "log");
	api_shared_add(L, t);
	api_crypto_add(L);
	document_open(L);
	document_add_json(L);
	api_match_add(L);
	api_time_add(L, t);
	add_reader(L, "setting", l_setting, &t->settings);
	add_reader(L, "check_option", l_check_option, &t->check_option);
	api_use_add(L);
	secrets_add(L, &t->secrets);
	queue_facts_open(L, &t->queues);
	queue_facts_push(L, &t->queues);
	lua_setfield(L, -2, "queue");
	for (int i = 0; names[i][0]; i++) {
		lua_pushstring(L, names[i][1]);
		lua_setfield(L, -2, names[i][0]);
	}
	guard_names(L);
	sandbox_add_global(L, "tide");
	push_log(L, t, LOG_INFO, 1);
	sandbox_add_global(L, "print");
}
