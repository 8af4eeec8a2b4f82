#include "compile.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "field.h"
#include "script.h"
#include "source_limits.h"

#define PIECE_BYTES 256
#define LOAD_NAME_MAX 16

struct compiling {
	const char *name;
	const char *at, *end;
	int line; /* of what comes next */
};

static const char *read_piece(lua_State *L, void *ctx, size_t *len)
{
	struct compiling *r = ctx;
	struct script_state *s = script_state_of(L);
	const char *piece = r->at;

	if (watchdog_has_fired(s->watchdog)) {
		snprintf(s->fault, sizeof(s->fault),
			 "%s:%d: ran longer than its budget of %d ms to be compiled",
			 r->name, r->line, (int)watchdog_budget_ms(s->watchdog));
		script_raise(L);
	}
	*len = (size_t)(r->end - r->at);
	if (*len > PIECE_BYTES)
		*len = PIECE_BYTES;
	for (r->at += *len; piece < r->at; piece++)
		r->line += *piece == '\n';
	return r->at - *len;
}

int compile_text(lua_State *L, struct slice text, const char *name)
{
	const struct source source = { .data = (char *)(uintptr_t)text.data,
				       .len = text.len };
	struct compiling reading = { name, text.data, text.data + text.len, 1 };
	char chunk_name[SCRIPT_PLACE_MAX];
	struct error err;

	snprintf(chunk_name, sizeof(chunk_name), "=%s", name);
	if (text.len > 0 && text.data[0] == LUA_SIGNATURE[0]) {
		lua_pushfstring(L, "%s:1: is bytecode; a script must be Lua text", name);
		return LUA_ERRSYNTAX;
	}
	if (source_limits_check(&source, name, &err) != TIDE_OK) {
		lua_pushstring(L, err.text);
		return LUA_ERRSYNTAX;
	}
	/* Lua itself protects the parsing. */
	return lua_load(L, read_piece, &reading, chunk_name, "t");
}

/* "load(name)@filter/a.lua": errors in the text have this in the place of a file. A name
 * counts that begins as those of files do: others are the text itself. */
static void name_chunk(struct slice given, const char *file, char out[SCRIPT_PLACE_MAX])
{
	char name[LOAD_NAME_MAX + 1];
	size_t len = 0;

	if (given.len < 2 || (given.data[0] != '=' && given.data[0] != '@')) {
		snprintf(out, SCRIPT_PLACE_MAX, "load@%s", file);
		return;
	}
	for (; len < LOAD_NAME_MAX && len + 1 < given.len; len++) {
		char c = given.data[len + 1];
		name[len] = isalnum((unsigned char)c) || c == '-' ? c : '_';
	}
	snprintf(out, SCRIPT_PLACE_MAX, "load(%.*s)@%s", (int)len, name, file);
}

static int fail(lua_State *L)
{
	lua_pushnil(L);
	lua_insert(L, -2);
	return 2;
}

/* load (text [, name [, mode [, env]]]) -> function, or nil and a message.
 * Upvalues: the environment of the file, its name. */
static int l_load(lua_State *L)
{
	char name[SCRIPT_PLACE_MAX];

	script_check(L);
	if (lua_type(L, 1) != LUA_TSTRING)
		return luaL_argerror(L, 1, "load takes a text; join the pieces first");
	struct slice text = field_slice(L, 1), given = { NULL, 0 };
	if (!lua_isnoneornil(L, 2))
		given.data = luaL_checklstring(L, 2, &given.len);
	const char *mode = luaL_optstring(L, 3, "t");
	if (!strchr(mode, 't')) {
		lua_pushfstring(L, "attempt to load a text chunk (mode is '%s')", mode);
		return fail(L);
	}
	if (text.len > SOURCE_MAX_BYTES) {
		lua_pushfstring(L,
				"the text is larger than %d bytes, the limit for a file",
				SOURCE_MAX_BYTES);
		return fail(L);
	}
	lua_settop(L, lua_isnone(L, 4) ? 3 : 4);
	name_chunk(given, lua_tostring(L, lua_upvalueindex(2)), name);
	int rc = compile_text(L, text, name);
	script_check(L);
	if (rc != LUA_OK)
		return fail(L);
	lua_pushvalue(L, lua_gettop(L) == 5 ? 4 : lua_upvalueindex(1));
	lua_setupvalue(L, -2, 1);
	return 1;
}

void compile_add_load(lua_State *L, int idx, const char *name)
{
	idx = lua_absindex(L, idx);
	lua_pushvalue(L, idx);
	lua_pushstring(L, name);
	lua_pushcclosure(L, l_load, 2);
	lua_setfield(L, idx, "load");
}
