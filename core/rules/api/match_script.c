#include "match_script.h"

#include <lauxlib.h>

#include "base/buf.h"
#include "base/container.h"
#include "base/mem.h"
#include "api_tide.h"
#include "document.h"
#include "draft.h"
#include "host/machine.h"
#include "rules/sandbox/compile.h"
#include "rules/sandbox/read_only.h"
#include "rules/sandbox/sandbox.h"

#define FILE_NAME "match.lua" /* in the place of errors */

struct match_scripts {
	unsigned refs;
	struct watchdog *watchdog;
	struct sandbox sandbox;
	struct api_tide tide;
	struct documents documents;
	struct script_state state;
	int environment; /* a reference */
};

struct expression {
	struct msg_match_script base;
	struct match_scripts *all;
	int function; /* a reference */
	/* Of the call under way. */
	struct slice text;
	struct api_msg msg;
	bool has;
};

static int l_open(lua_State *L)
{
	static const char *const absent[] = { "require", "load" };
	struct match_scripts *all = lua_touserdata(L, 1);
	struct source empty;

	sandbox_open(L, &all->sandbox);
	api_msg_open(L);
	document_open(L);
	api_tide_open_clock(L, &all->tide);
	empty = (struct source){ .data = mem_strdup("") };
	sandbox_load_take(L, &empty, FILE_NAME);
	lua_getupvalue(L, -1, 1);
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		lua_pushnil(L);
		lua_setfield(L, -2, absent[i]);
	}
	read_only_show(L);
	all->environment = luaL_ref(L, LUA_REGISTRYINDEX);
	return 0;
}

/* Each evaluation begins with the environment that all have. */
static void set_environment(lua_State *L, const struct match_scripts *all)
{
	lua_rawgeti(L, LUA_REGISTRYINDEX, all->environment);
	lua_setupvalue(L, -2, 1);
}

static int l_compile(lua_State *L)
{
	struct expression *x = lua_touserdata(L, 1);
	luaL_Buffer code;
	struct slice text;

	luaL_buffinit(L, &code);
	luaL_addstring(&code, "local msg = ...; return ");
	luaL_addlstring(&code, x->text.data, x->text.len);
	luaL_pushresult(&code);
	text.data = lua_tolstring(L, -1, &text.len);
	int rc = compile_text(L, text, FILE_NAME);
	script_check(L);
	if (rc != LUA_OK)
		return lua_error(L);
	x->function = luaL_ref(L, LUA_REGISTRYINDEX);
	return 0;
}

static int l_has(lua_State *L)
{
	struct expression *x = lua_touserdata(L, 1);

	lua_settop(L, 0);
	lua_rawgeti(L, LUA_REGISTRYINDEX, x->function);
	set_environment(L, x->all);
	api_msg_push(L, &x->msg);
	lua_call(L, 1, 1);
	x->has = lua_toboolean(L, 1);
	return 0;
}

static int l_forget(lua_State *L)
{
	const struct expression *x = lua_touserdata(L, 1);

	luaL_unref(L, LUA_REGISTRYINDEX, x->function);
	return 0;
}

/* What went wrong, without a place: an expression is one line. */
static int explain(const struct match_scripts *all, int code, struct error *err)
{
	static const char place[] = FILE_NAME ":1: ";
	const char *text = strncmp(err->text, place, strlen(place)) == 0
				   ? err->text + strlen(place)
				   : err->text;
	struct error why = *err;

	if (all->state.was_refused)
		return error_set(err, TIDE_ELIMIT,
				 "match=lua: the expressions of all requests have %zu "
				 "MiB of memory, and this one found no room",
				 MATCH_SCRIPT_MEMORY_BYTES >> 20);
	return error_set(err, code, "match=lua: %s", why.text + (text - err->text));
}

static int enter(struct match_scripts *all, lua_CFunction body, void *ctx,
		 struct error *err)
{
	const struct script_call call = {
		.file = FILE_NAME, .account = &all->state.own, .body = body, .ctx = ctx
	};

	return script_enter(&all->state, &call, err);
}

void match_scripts_unref(struct match_scripts *all)
{
	if (!all || --all->refs > 0)
		return;
	script_state_deinit(&all->state);
	document_deinit(&all->documents);
	watchdog_destroy(all->watchdog);
	mem_free(all);
}

static int open_state(struct match_scripts **out, struct error *err)
{
	struct match_scripts *all = mem_zalloc(sizeof(*all));
	int rc;

	all->refs = 1;
	all->sandbox.rules_dir = all->sandbox.lua_dir = "";
	rc = watchdog_create(&all->watchdog, MATCH_SCRIPT_BUDGET_MS, script_on_overrun);
	if (rc < 0) {
		mem_free(all);
		return error_set(err, rc, "cannot start the watchdog: %s",
				 error_text(rc));
	}
	rc = script_state_init(&all->state, all->watchdog, MATCH_SCRIPT_MEMORY_BYTES);
	all->state.documents = &all->documents;
	if (rc < 0)
		error_set(err, TIDE_ELIMIT, "out of memory for a Lua state");
	else
		rc = enter(all, l_open, all, err);
	if (rc < 0)
		match_scripts_unref(all);
	else
		*out = all;
	return rc;
}

static bool has(struct msg_match_script *base, const struct msg *m, uint32_t attempt)
{
	struct expression *x = container_of(base, struct expression, base);
	struct match_scripts *all = x->all;
	int64_t began_ns = machine_clock_ns(CLOCK_MONOTONIC);
	int rc;

	x->msg = (struct api_msg){ .msg = m, .attempt = attempt };
	rc = enter(all, l_has, x, &base->err);
	if (all->documents.held_bytes > DOCUMENTS_KEPT_BYTES)
		document_trim(&all->documents);
	base->spent_ns += (uint64_t)(machine_clock_ns(CLOCK_MONOTONIC) - began_ns);
	if (rc == TIDE_OK)
		return x->has;
	explain(all, rc, &base->err);
	return false;
}

static void destroy(struct msg_match_script *base)
{
	struct expression *x = container_of(base, struct expression, base);
	struct error ignored;

	(void)enter(x->all, l_forget, x, &ignored);
	match_scripts_unref(x->all);
	mem_free(x);
}

int match_script_create(struct match_scripts **all, struct slice text,
			struct msg_match *out, struct error *err)
{
	struct expression *x;

	*out = (struct msg_match){ .kind = MSG_MATCH_ALL };
	if (text.len == 0)
		return error_set(err, TIDE_ESYNTAX,
				 "match=lua: has no expression behind it");
	if (!*all && open_state(all, err) < 0)
		return err->code;
	x = mem_zalloc(sizeof(*x));
	x->base.has = has;
	x->base.destroy = destroy;
	x->all = *all;
	x->text = text;
	if (enter(*all, l_compile, x, err) < 0) {
		mem_free(x);
		return explain(*all, TIDE_ESYNTAX, err);
	}
	x->all->refs++;
	*out = (struct msg_match){ .kind = MSG_MATCH_SCRIPT, .script = &x->base };
	return TIDE_OK;
}
