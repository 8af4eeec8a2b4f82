/* pattern_lib.c: string.find, match, gmatch and gsub on the matcher of pattern.h. */

#include <lauxlib.h>
#include <string.h>

#include "pattern.h"
#include "script.h"

/* One capture, or the whole match where the pattern has none. */
static void push_capture(const struct pattern_match *m, const struct pattern *p,
			 unsigned number, const char *from, const char *to)
{
	if (number >= p->captures) {
		if (number > 0)
			luaL_error(m->L, "invalid capture index %%%d", (int)number + 1);
		lua_pushlstring(m->L, from, (size_t)(to - from));
		return;
	}
	const struct pattern_capture *capture = &m->captures[number];
	if (capture->end)
		lua_pushlstring(m->L, capture->start,
				(size_t)(capture->end - capture->start));
	else
		lua_pushinteger(m->L, capture->start - m->subject + 1);
}

static int push_captures(const struct pattern_match *m, const struct pattern *p,
			 const char *from, const char *to)
{
	unsigned count = p->captures ? p->captures : 1;

	luaL_checkstack(m->L, (int)count, "too many captures");
	for (unsigned i = 0; i < count; i++)
		push_capture(m, p, i, from, to);
	return (int)count;
}

/* The offset that argument `idx` means: from 1, or from the end when negative. It
 * may be behind the text. */
static size_t read_init(lua_State *L, int idx, size_t len)
{
	lua_Integer init = luaL_optinteger(L, idx, 1);

	if (init > 0)
		return (size_t)init - 1;
	if (init == 0 || init < -(lua_Integer)len)
		return 0;
	return len - (size_t)-init;
}

static bool is_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] && strchr("^$*+?.([%-", text[i]))
			return false;
	}
	return true;
}

static int search(lua_State *L, const char *function, bool is_find)
{
	struct pattern p;
	struct pattern_match m;
	size_t len, pattern_len;

	script_check(L);
	const char *text = luaL_checklstring(L, 1, &len);
	const char *pattern = luaL_checklstring(L, 2, &pattern_len);
	size_t init = read_init(L, 3, len);
	if (init > len) {
		lua_pushnil(L);
		return 1;
	}
	const char *at = text + init, *end;
	if (is_find && (lua_toboolean(L, 4) || is_plain(pattern, pattern_len))) {
		/* memmem is linear, whatever is looked for. */
		at = memmem(at, len - init, pattern, pattern_len);
		end = at ? at + pattern_len : NULL;
		p.captures = 0;
	} else {
		pattern_compile(L, &p, pattern, pattern_len, true);
		pattern_match_init(&m, L, function, text, len);
		end = pattern_match_search(&m, &p, &at);
	}
	if (!end) {
		lua_pushnil(L);
		return 1;
	}
	if (!is_find)
		return push_captures(&m, &p, at, end);
	lua_pushinteger(L, at - text + 1);
	lua_pushinteger(L, end - text);
	return 2 + (p.captures ? push_captures(&m, &p, at, end) : 0);
}

static int l_find(lua_State *L)
{
	return search(L, "string.find", true);
}

static int l_match(lua_State *L)
{
	return search(L, "string.match", false);
}

struct iteration {
	struct pattern pattern;
	const char *at;
	const char *last; /* where the match before ended: an empty one there is none */
};

/* Upvalues: the subject, the pattern (kept for their memory), the iteration, and
 * what pattern_compile pushed. */
static int l_next(lua_State *L)
{
	struct iteration *it = lua_touserdata(L, lua_upvalueindex(3));
	struct pattern_match m;
	size_t len;
	const char *text = lua_tolstring(L, lua_upvalueindex(1), &len);

	script_check(L);
	pattern_match_init(&m, L, "string.gmatch", text, len);
	while (it->at <= m.end) {
		const char *end = pattern_match_search(&m, &it->pattern, &it->at);
		if (!end)
			break;
		const char *from = it->at;
		if (end == it->last) {
			it->at++;
			continue;
		}
		it->at = it->last = end;
		return push_captures(&m, &it->pattern, from, end);
	}
	it->at = m.end + 1;
	return 0;
}

static int l_gmatch(lua_State *L)
{
	size_t len, pattern_len;

	script_check(L);
	const char *text = luaL_checklstring(L, 1, &len);
	const char *pattern = luaL_checklstring(L, 2, &pattern_len);
	size_t init = read_init(L, 3, len);
	lua_settop(L, 2);
	struct iteration *it = lua_newuserdatauv(L, sizeof(*it), 0);
	pattern_compile(L, &it->pattern, pattern, pattern_len, false);
	it->at = init > len ? text + len + 1 : text + init;
	it->last = NULL;
	lua_pushcclosure(L, l_next, 4);
	return 1;
}

struct substitution {
	struct pattern pattern;
	struct pattern_match match;
	luaL_Buffer out;
	int type; /* of argument 3, the replacement */
};

/* The replacement is a text in which %0 to %9 are captures. */
static void add_text(struct substitution *s, const char *from, const char *to)
{
	lua_State *L = s->match.L;
	size_t len;
	const char *text = lua_tolstring(L, 3, &len), *end = text + len, *percent;

	pattern_match_spend(&s->match, len / 16);
	for (; (percent = memchr(text, '%', (size_t)(end - text))); text = percent + 2) {
		pattern_match_spend(&s->match, 2);
		luaL_addlstring(&s->out, text, (size_t)(percent - text));
		char what = percent + 1 < end ? percent[1] : '\0';
		if (what == '%') {
			luaL_addchar(&s->out, '%');
		} else if (what == '0') {
			luaL_addlstring(&s->out, from, (size_t)(to - from));
		} else if (what >= '1' && what <= '9') {
			push_capture(&s->match, &s->pattern, (unsigned)(what - '1'), from,
				     to);
			luaL_tolstring(L, -1, NULL); /* a position is a number */
			lua_remove(L, -2);
			luaL_addvalue(&s->out);
		} else {
			luaL_error(L, "invalid use of '%%' in replacement string");
		}
	}
	luaL_addlstring(&s->out, text, (size_t)(end - text));
}

/* Of a table or a function; false when the match stays as it is. */
static bool add_value(struct substitution *s, const char *from, const char *to)
{
	lua_State *L = s->match.L;

	if (s->type == LUA_TFUNCTION) {
		lua_pushvalue(L, 3);
		lua_call(L, push_captures(&s->match, &s->pattern, from, to), 1);
	} else {
		push_capture(&s->match, &s->pattern, 0, from, to);
		lua_gettable(L, 3);
	}
	if (!lua_toboolean(L, -1)) {
		lua_pop(L, 1);
		luaL_addlstring(&s->out, from, (size_t)(to - from));
		return false;
	}
	if (!lua_isstring(L, -1))
		luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
	luaL_addvalue(&s->out);
	return true;
}

static bool replace(struct substitution *s, const char *from, const char *to)
{
	pattern_match_spend(&s->match, 4);
	if (s->type == LUA_TFUNCTION || s->type == LUA_TTABLE) {
		/* A C function, a chain of __index: no instruction, no hook. */
		script_check(s->match.L);
		return add_value(s, from, to);
	}
	add_text(s, from, to);
	return true;
}

static lua_Integer substitute(struct substitution *s, lua_Integer max, bool *has_changed)
{
	struct pattern_match *m = &s->match;
	const char *at = m->subject, *last = NULL;
	lua_Integer count = 0;

	while (count < max) {
		const char *from = at;
		const char *end = pattern_match_search(m, &s->pattern, &from);
		if (!end)
			break;
		luaL_addlstring(&s->out, at, (size_t)(from - at));
		at = from;
		if (end != last) {
			*has_changed |= replace(s, from, end);
			count++;
			at = last = end;
		} else if (at < m->end) {
			luaL_addchar(&s->out, *at++);
		} else {
			break;
		}
		if (s->pattern.is_anchored)
			break;
	}
	luaL_addlstring(&s->out, at, (size_t)(m->end - at));
	return count;
}

static int l_gsub(lua_State *L)
{
	struct substitution s;
	size_t len, pattern_len;
	bool has_changed = false;
	const char *text = luaL_checklstring(L, 1, &len);
	const char *pattern = luaL_checklstring(L, 2, &pattern_len);

	s.type = lua_type(L, 3);
	luaL_argexpected(L,
			 s.type == LUA_TNUMBER || s.type == LUA_TSTRING ||
				 s.type == LUA_TTABLE || s.type == LUA_TFUNCTION,
			 3, "string/function/table");
	lua_Integer max = luaL_optinteger(L, 4, (lua_Integer)len + 1);
	lua_settop(L, 3);
	pattern_compile(L, &s.pattern, pattern, pattern_len, true);
	pattern_match_init(&s.match, L, "string.gsub", text, len);
	luaL_buffinit(L, &s.out);
	lua_Integer count = substitute(&s, max, &has_changed);
	luaL_pushresult(&s.out);
	if (!has_changed)
		lua_pushvalue(L, 1);
	lua_pushinteger(L, count);
	return 2;
}

void pattern_lib_install(lua_State *L, int idx)
{
	static const luaL_Reg functions[] = {
		{ "find", l_find },   { "gmatch", l_gmatch }, { "gsub", l_gsub },
		{ "match", l_match }, { NULL, NULL },
	};

	lua_pushvalue(L, idx);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}
