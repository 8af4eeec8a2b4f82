#include "evaluate.h"

#include <lauxlib.h>
#include <string.h>

#include "base/mem.h"
#include "rules/api/draft.h"
#include "rules/engine/engine_private.h"
#include "rules/sandbox/compile.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/safe_lib.h"

#define FILE_NAME "prompt.lua" /* in the place of errors */
#define DEPTH_MAX 4
#define ENTRIES_MAX 100
#define OUTPUT_MAX ((size_t)64 * 1024)

/* Registry: the environment of all lines. */
static const char environment_key;

struct evaluation {
	const struct evaluate_spec *spec;
	struct api_msg msg;
	struct buf *out;
	bool is_open; /* the text ends too early */
};

static void write_value(lua_State *L, struct buf *out, int idx, int depth);

static void write_text(struct buf *out, struct slice text)
{
	buf_append_char(out, '"');
	for (size_t i = 0; i < text.len && buf_len(out) < OUTPUT_MAX; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c == '"' || c == '\\')
			buf_printf(out, "\\%c", c);
		else if (c == '\n')
			buf_append_text(out, "\\n");
		else if (c < ' ' || c == 127)
			buf_printf(out, "\\x%02x", c);
		else
			buf_append_char(out, (char)c);
	}
	buf_append_char(out, '"');
}

/* A key of a table: none for the next number of a list. */
static void write_key(lua_State *L, struct buf *out, int idx, lua_Integer *next)
{
	if (lua_isinteger(L, idx) && lua_tointeger(L, idx) == *next) {
		++*next;
		return;
	}
	buf_append_char(out, '[');
	write_value(L, out, idx, 0);
	buf_append_text(out, "] = ");
}

static void write_table(lua_State *L, struct buf *out, int idx, int depth)
{
	lua_Integer next = 1;
	int count = 0;

	lua_pushvalue(L, idx);
	safe_lib_unfold(L, -1);
	int table = lua_gettop(L);
	buf_append_char(out, '{');
	for (lua_pushnil(L); lua_next(L, table) != 0; lua_settop(L, table + 1)) {
		script_check(L);
		buf_append_text(out, count ? ", " : " ");
		if (++count > ENTRIES_MAX || buf_len(out) > OUTPUT_MAX) {
			buf_append_text(out, "...");
			break;
		}
		write_key(L, out, table + 1, &next);
		write_value(L, out, table + 2, depth - 1);
	}
	lua_settop(L, table - 1);
	buf_append_text(out, count ? " }" : "}");
}

/* @param depth  of tables in it that are shown */
static void write_value(lua_State *L, struct buf *out, int idx, int depth)
{
	luaL_checkstack(L, 8, NULL);
	if (lua_type(L, idx) == LUA_TSTRING) {
		write_text(out, field_slice(L, idx));
	} else if (lua_type(L, idx) == LUA_TTABLE && depth > 0) {
		write_table(L, out, idx, depth);
	} else {
		lua_pushvalue(L, idx);
		buf_append_text(out, safe_lib_tolstring(L, -1, NULL));
		lua_pop(L, 2);
	}
}

/* Push the function of the text, as an expression if it is one; or what is wrong. */
static bool push_function(lua_State *L, struct evaluation *v)
{
	static const char returning[] = "return ";
	luaL_Buffer code;

	luaL_buffinit(L, &code);
	luaL_addlstring(&code, returning, strlen(returning));
	luaL_addlstring(&code, v->spec->text.data, v->spec->text.len);
	luaL_pushresult(&code);
	if (compile_text(L, field_slice(L, -1), FILE_NAME) == LUA_OK)
		return true;
	v->is_open = slice_has_suffix(field_slice(L, -1), "<eof>");
	if (compile_text(L, v->spec->text, FILE_NAME) == LUA_OK)
		return true;
	v->is_open |= slice_has_suffix(field_slice(L, -1), "<eof>");
	return false;
}

/* Push an environment as a file has it. */
static void push_new_environment(lua_State *L)
{
	struct source empty = { .data = mem_strdup("") };

	sandbox_load_take(L, &empty, FILE_NAME);
	lua_getupvalue(L, -1, 1);
	lua_remove(L, -2);
}

static void push_environment(lua_State *L, const struct evaluate_spec *spec)
{
	if (spec->is_dry) {
		push_new_environment(L);
		/* The functions of a module may change what others see. */
		lua_pushnil(L);
		lua_setfield(L, -2, "require");
		return;
	}
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &environment_key) == LUA_TTABLE)
		return;
	lua_pop(L, 1);
	push_new_environment(L);
	sandbox_allow_require(L);
	lua_pushvalue(L, -1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &environment_key);
}

static int l_line(lua_State *L)
{
	struct evaluation *v = lua_touserdata(L, 1);

	lua_settop(L, 0);
	bool is_loaded = push_function(L, v);
	script_check(L);
	if (!is_loaded)
		return lua_error(L);
	push_environment(L, v->spec);
	if (v->spec->msg)
		api_msg_push(L, &v->msg);
	else
		lua_pushnil(L);
	lua_setfield(L, -2, "msg");
	lua_setupvalue(L, -2, 1);
	int top = lua_gettop(L);
	lua_call(L, 0, LUA_MULTRET);
	int count = lua_gettop(L) - top + 1;
	for (int i = 0; i < count; i++) {
		script_check(L);
		buf_append_text(v->out, i > 0 ? ", " : "");
		if (i == ENTRIES_MAX || buf_len(v->out) > OUTPUT_MAX) {
			buf_append_text(v->out, "...");
			break;
		}
		write_value(L, v->out, top + i, DEPTH_MAX);
	}
	return 0;
}

int evaluate_line(struct engine *e, const struct evaluate_spec *spec, struct buf *out,
		  bool *is_open, struct error *err)
{
	struct script_state *s = &e->current->script;
	struct evaluation v = { .spec = spec, .msg = { .msg = spec->msg }, .out = out };
	struct decision_context context = {
		.has_random = true,
		.random_state = engine_random_state(e),
		.is_dry = true,
		.is_uncounted = true,
	};
	struct script_call call = { .file = FILE_NAME,
				    .vhost = spec->vhost,
				    .context = spec->is_dry ? &context : NULL,
				    .is_decision = true,
				    .body = l_line,
				    .ctx = &v };
	size_t before = buf_len(out);
	int rc = script_enter(s, &call, err);

	if (rc != TIDE_OK)
		out->end = out->start + before;
	if (is_open)
		*is_open = rc != TIDE_OK && v.is_open;
	return rc;
}
