#include "compile.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "field.h"
#include "script.h"

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
	if (compile_check_limits(&source, name, &err) != TIDE_OK) {
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

/* Lua refuses what nests deeper than 200. */
#define DEPTH_MAX 256

struct scan {
	const char *at, *end;
	int line;
	int jumps;
	bool is_suffix; /* the token before was '.' or ':' */
	/* The indexes of the expression under way, in each pair of brackets around. */
	int indexes[DEPTH_MAX];
	int depth;
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static char peek(const struct scan *s, size_t offset)
{
	return offset < (size_t)(s->end - s->at) ? s->at[offset] : '\0';
}

static void skip(struct scan *s, size_t len)
{
	for (; len > 0 && s->at < s->end; len--)
		s->line += *s->at++ == '\n';
}

/* A '[' with `level` '=' and another '[' begin a text; -1: this one does not. */
static int long_level(const struct scan *s)
{
	size_t level = 0;

	if (peek(s, 0) != '[')
		return -1;
	while (peek(s, 1 + level) == '=')
		level++;
	return peek(s, 1 + level) == '[' ? (int)level : -1;
}

static void skip_long(struct scan *s, int level)
{
	skip(s, 2 + (size_t)level);
	for (; s->at < s->end; skip(s, 1)) {
		int found = 0;
		while (*s->at == ']' && peek(s, 1 + (size_t)found) == '=')
			found++;
		if (*s->at == ']' && found == level && peek(s, 1 + (size_t)level) == ']')
			break;
	}
	skip(s, 2 + (size_t)level);
}

static void skip_comment(struct scan *s)
{
	skip(s, 2);
	int level = long_level(s);
	if (level >= 0) {
		skip_long(s, level);
		return;
	}
	while (s->at < s->end && *s->at != '\n')
		s->at++;
}

static void skip_quoted(struct scan *s)
{
	char quote = *s->at;

	for (skip(s, 1); s->at < s->end && *s->at != quote;)
		skip(s, *s->at == '\\' ? 2 : 1);
	skip(s, 1);
}

static void skip_number(struct scan *s)
{
	bool is_hex = *s->at == '0' && tolower((unsigned char)peek(s, 1)) == 'x';
	char exponent = is_hex ? 'p' : 'e';

	while (is_word(peek(s, 0)) || peek(s, 0) == '.') {
		bool is_exponent = tolower((unsigned char)*s->at) == exponent;
		bool has_sign = peek(s, 1) == '+' || peek(s, 1) == '-';
		skip(s, is_exponent && has_sign ? 2 : 1);
	}
}

/* A name that is no suffix, and each keyword, begins an expression or stands between
 * two. */
static void scan_word(struct scan *s)
{
	struct slice word = { s->at, 0 };

	while (s->at < s->end && is_word(*s->at))
		s->at++;
	word.len = (size_t)(s->at - word.data);
	s->jumps += slice_is(word, "goto") || slice_is(word, "break");
	if (!s->is_suffix)
		s->indexes[s->depth] = 0;
}

static void open_bracket(struct scan *s)
{
	skip(s, 1);
	if (s->depth + 1 < DEPTH_MAX)
		s->indexes[++s->depth] = 0;
}

/* An expression in brackets is part of the one around it. */
static void close_bracket(struct scan *s)
{
	skip(s, 1);
	if (s->depth == 0)
		return;
	s->depth--;
	s->indexes[s->depth] += s->indexes[s->depth + 1];
}

static void scan_sign(struct scan *s)
{
	bool is_dot = *s->at == '.' && peek(s, 1) != '.';

	if (is_dot || *s->at == '[')
		s->indexes[s->depth]++;
	if (*s->at && strchr("([{", *s->at)) {
		open_bracket(s);
	} else if (*s->at && strchr(")]}", *s->at)) {
		close_bracket(s);
	} else if (is_dot || *s->at == ':') {
		skip(s, 1);
	} else {
		s->indexes[s->depth] = 0;
		skip(s, *s->at == '.' ? 2 + (peek(s, 2) == '.') : 1);
	}
}

static void scan_token(struct scan *s)
{
	char c = *s->at;
	bool is_suffix = c == ':' || (c == '.' && peek(s, 1) != '.');

	if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)peek(s, 1))))
		skip_number(s);
	else if (is_word(c))
		scan_word(s);
	else if (c == '"' || c == '\'')
		skip_quoted(s);
	else if (long_level(s) >= 0)
		skip_long(s, long_level(s));
	else
		scan_sign(s);
	s->is_suffix = is_suffix;
}

int compile_check_limits(const struct source *source, const char *name, struct error *err)
{
	struct scan s = { .at = source->data,
			  .end = source->data + source->len,
			  .line = 1 };

	while (s.at < s.end) {
		if (isspace((unsigned char)*s.at))
			skip(&s, 1);
		else if (*s.at == '-' && peek(&s, 1) == '-')
			skip_comment(&s);
		else
			scan_token(&s);
		if (s.jumps > SOURCE_LIMITS_JUMPS)
			return error_set(
				err, TIDE_ERULE,
				"%s:%d: more than %d 'goto' and 'break' in a file", name,
				s.line, SOURCE_LIMITS_JUMPS);
		if (s.indexes[s.depth] > SOURCE_LIMITS_INDEXES)
			return error_set(
				err, TIDE_ERULE,
				"%s:%d: more than %d '.' and '[' in one expression", name,
				s.line, SOURCE_LIMITS_INDEXES);
	}
	return TIDE_OK;
}
