#include "sandbox.h"

#include <ctype.h>
#include <lauxlib.h>
#include <limits.h>
#include <lualib.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bundle.h"
#include "compile.h"
#include "hints.h"
#include "read_only.h"
#include "safe_lib.h"
#include "script.h"
#include "source.h"

#define MODULE_NAME_MAX 128
#define MODULE_FILE_MAX (MODULE_NAME_MAX + 16)

/* Registry keys: the globals that an environment is made from; the results of
 * require by name. While a file is being loaded, in its place is the serial of the
 * call, as a light userdata, and stays there when it fails. */
static const char template_key;
static const char modules_key;

static const char *const globals[] = {
	"_VERSION", "assert",   "error",  "ipairs", "math",   "next",         "pairs",
	"pcall",    "rawequal", "rawget", "rawlen", "select", "string",       "table",
	"tonumber", "tostring", "type",   "utf8",   "xpcall", "setmetatable", NULL
};

static void copy_table(lua_State *L, int from)
{
	from = lua_absindex(L, from);
	lua_newtable(L);
	for (lua_pushnil(L); lua_next(L, from) != 0; lua_pop(L, 1)) {
		lua_pushvalue(L, -2);
		lua_pushvalue(L, -2);
		lua_rawset(L, -5);
	}
}

/* Upvalues of require: the sandbox, the environment of the file, whether it loads modules
 * at any time. */
static void bind_require(lua_State *L, int env)
{
	lua_getfield(L, env, "require");
	lua_CFunction function = lua_tocfunction(L, -1);
	lua_getupvalue(L, -1, 1);
	lua_pushvalue(L, env);
	lua_pushboolean(L, 0);
	lua_pushcclosure(L, function, 3);
	lua_setfield(L, env, "require");
	lua_pop(L, 1);
}

void sandbox_allow_require(lua_State *L)
{
	lua_getfield(L, -1, "require");
	lua_pushboolean(L, 1);
	lua_setupvalue(L, -2, 3);
	lua_pop(L, 1);
}

/* The environment of the file `name`: the globals, a copy of each library among them, and
 * the functions that must know whose they are. */
static void push_environment(lua_State *L, const char *name)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &template_key);
	copy_table(L, -1);
	lua_remove(L, -2);
	int env = lua_gettop(L);
	for (lua_pushnil(L); lua_next(L, env) != 0; lua_settop(L, env + 1)) {
		if (!lua_istable(L, -1))
			continue;
		copy_table(L, -1);
		if (lua_getmetatable(L, -2)) /* of hints.h */
			lua_setmetatable(L, -2);
		lua_pushvalue(L, env + 1);
		lua_insert(L, -2);
		lua_rawset(L, env); /* an existing key: the traversal goes on */
	}
	lua_pushvalue(L, env);
	lua_setfield(L, env, "_G");
	safe_lib_bind_meta(L, env);
	compile_add_load(L, env, name);
	bind_require(L, env);
}

void sandbox_load_take(lua_State *L, struct source *source, const char *name)
{
	int rc = compile_text(L, (struct slice){ source->data, source->len }, name);

	source_free(source);
	if (rc != LUA_OK)
		lua_error(L);
	push_environment(L, name);
	lua_setupvalue(L, -2, 1);
}

/* "a.b-c.d": words of letters, digits, '_' and '-', so there is no way out of a
 * directory. */
static bool is_module_name(const char *name, size_t len)
{
	size_t word = 0;

	for (const char *c = name; c < name + len; c++) {
		bool is_letter = isalnum((unsigned char)*c) || *c == '_' || *c == '-';
		if (!is_letter && (*c != '.' || word == 0))
			return false;
		word = is_letter ? word + 1 : 0;
	}
	return word > 0 && len <= MODULE_NAME_MAX;
}

int sandbox_read(struct sandbox *sandbox, const char *name, struct source *out,
		 struct error *err)
{
	struct bundle_file file = { .path = (char *)(uintptr_t)name };
	char path[PATH_MAX];
	int rc;

	if (snprintf(path, sizeof(path), "%s/%s", sandbox->rules_dir, name) >=
	    (int)sizeof(path))
		return error_set(err, TIDE_ERULE, "%s: the path is too long", name);
	rc = bundle_read(sandbox->from, sandbox->files, out, path, name, err);
	if (rc != TIDE_OK || !sandbox->on_file)
		return rc;
	file.text = out->data;
	file.len = out->len;
	rc = sandbox->on_file(sandbox->on_file_ctx, path, &file, err);
	if (rc != TIDE_OK)
		source_free(out);
	return rc;
}

int sandbox_read_shipped(struct sandbox *sandbox, const char *name, struct source *out,
			 struct error *err)
{
	char path[PATH_MAX], file[MODULE_FILE_MAX];

	snprintf(file, sizeof(file), SANDBOX_SHIPPED_DIR "/%s", name);
	if (snprintf(path, sizeof(path), "%s/%s", sandbox->lua_dir, file) >=
	    (int)sizeof(path))
		return error_set(err, TIDE_ERULE, "%s: the path is too long", name);
	return bundle_read(NULL, sandbox->framework, out, path, file, err);
}

/* Read the file of a module: a/b.lua, or with `ending` "/init.lua" that one of the folder
 * a/b. `file` receives its name relative to its directory. */
static int read_file(struct sandbox *sandbox, const char *name, const char *ending,
		     char *file, struct source *source, struct error *err)
{
	bool is_framework = strncmp(name, "tide.", strlen("tide.")) == 0;
	char path[PATH_MAX];

	snprintf(file, MODULE_FILE_MAX, "%s%s", name, ending);
	for (char *c = file; c < file + strlen(name); c++) {
		if (*c == '.')
			*c = '/';
	}
	if (!is_framework)
		return sandbox_read(sandbox, file, source, err);
	if (snprintf(path, sizeof(path), "%s/%s", sandbox->lua_dir, file) >=
	    (int)sizeof(path))
		return error_set(err, TIDE_ERULE, "%s: the path is too long", file);
	return bundle_read(NULL, sandbox->framework, source, path, file, err);
}

/* The file is named by the error when there is neither. */
static int read_module(struct sandbox *sandbox, const char *name, char *file,
		       struct source *source, struct error *err)
{
	int rc = read_file(sandbox, name, ".lua", file, source, err);

	if (rc == TIDE_ENOTFOUND)
		rc = read_file(sandbox, name, "/init.lua", file, source, err);
	return rc;
}

static int refuse_module(lua_State *L, const char *name, const char *file)
{
	hints_push_module(L, name);
	return luaL_error(L,
			  "no module '%s': neither the framework nor the rules "
			  "directory has it as a file or as %s%s",
			  name, file, lua_tostring(L, -1));
}

/* Push the chunk of the module and its arguments. Not inline: modules that require each
 * other nest, and the buffers here would be on the stack once for each. */
static __attribute__((noinline)) void push_module(lua_State *L, struct sandbox *sandbox,
						  const char *name, bool is_allowed)
{
	char file[MODULE_FILE_MAX];
	struct source source;
	struct error err;
	int rc = read_module(sandbox, name, file, &source, &err);

	if (rc == TIDE_ENOTFOUND)
		refuse_module(L, name, file);
	if (rc != TIDE_OK)
		luaL_error(L, "%s", err.text);
	sandbox_load_take(L, &source, file);
	if (is_allowed) {
		lua_getupvalue(L, -1, 1);
		sandbox_allow_require(L);
		lua_pop(L, 1);
	}
	lua_pushstring(L, name);
	lua_pushstring(L, file);
}

/* Run the module's file and leave its result on the stack.
 *
 * @param is_allowed  see sandbox_allow_require */
static void run_module(lua_State *L, struct sandbox *sandbox, const char *name,
		       bool is_allowed)
{
	push_module(L, sandbox, name, is_allowed);
	lua_call(L, 2, 1);
	read_only_show(L);
	if (lua_isnil(L, -1)) {
		lua_pop(L, 1);
		lua_pushboolean(L, 1);
	}
}

/* As in other Luas, require gives libraries too: the file's own. */
static bool is_library(const char *name)
{
	static const char *const names[] = {
		LUA_GNAME,       LUA_STRLIBNAME,  LUA_TABLIBNAME, LUA_MATHLIBNAME,
		LUA_UTF8LIBNAME, LUA_COLIBNAME,   LUA_DBLIBNAME,  LUA_IOLIBNAME,
		LUA_OSLIBNAME,   LUA_LOADLIBNAME,
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static int l_require(lua_State *L)
{
	struct sandbox *sandbox = lua_touserdata(L, lua_upvalueindex(1));
	size_t len;
	const char *name = luaL_checklstring(L, 1, &len);

	if (!is_module_name(name, len)) {
		hints_push_module(L, name);
		lua_pushfstring(L, "not the name of a module%s", lua_tostring(L, -1));
		return luaL_argerror(L, 1, lua_tostring(L, -1));
	}
	lua_settop(L, 1);
	if (is_library(name)) {
		lua_getfield(L, lua_upvalueindex(2), name);
		return 1;
	}
	lua_rawgetp(L, LUA_REGISTRYINDEX, &modules_key);
	void *mark = (void *)(uintptr_t)script_state_of(L)->serial;
	bool is_mark = lua_getfield(L, 2, name) == LUA_TLIGHTUSERDATA;
	if (is_mark && lua_touserdata(L, -1) == mark)
		return luaL_error(L, "module '%s' requires itself", name);
	if (!is_mark && !lua_isnil(L, -1))
		return 1;
	bool is_allowed = lua_toboolean(L, lua_upvalueindex(3));
	if (!script_state_of(L)->is_loading && !is_allowed)
		return luaL_error(L,
				  "module '%s' cannot be loaded during a decision; "
				  "require it at the top of the file",
				  name);
	lua_pushlightuserdata(L, mark);
	lua_setfield(L, 2, name);
	run_module(L, sandbox, name, is_allowed);
	lua_pushvalue(L, -1);
	lua_setfield(L, 2, name);
	return 1;
}

static void remove_field(lua_State *L, int table, const char *name)
{
	lua_pushnil(L);
	lua_setfield(L, table, name);
}

/* The methods of strings are a table that no script can reach: all files share
 * them. */
static void protect_strings(lua_State *L, int string)
{
	lua_pushliteral(L, "");
	lua_getmetatable(L, -1);
	copy_table(L, string);
	hints_guard(L, LUA_STRLIBNAME, HINTS_EXPLAIN);
	lua_setfield(L, -2, "__index");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_pop(L, 2);
}

static void guard_library(lua_State *L, const char *name)
{
	lua_getfield(L, 1, name);
	hints_guard(L, name, HINTS_EXPLAIN);
	lua_pop(L, 1);
}

/* All the standard libraries that something is taken from; on the stack, the
 * table that they are in. */
static void open_libraries(lua_State *L)
{
	luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
	luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 1);
	luaL_requiref(L, LUA_TABLIBNAME, luaopen_table, 1);
	luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 1);
	luaL_requiref(L, LUA_UTF8LIBNAME, luaopen_utf8, 1);
	lua_settop(L, 1);
	safe_lib_install(L, 1);
	lua_getfield(L, 1, LUA_STRLIBNAME);
	remove_field(L, 2, "dump");
	protect_strings(L, 2);
	lua_getfield(L, 1, LUA_MATHLIBNAME);
	remove_field(L, 3, "random");
	remove_field(L, 3, "randomseed");
	lua_settop(L, 1);
	guard_library(L, LUA_STRLIBNAME);
	guard_library(L, LUA_TABLIBNAME);
	guard_library(L, LUA_MATHLIBNAME);
	guard_library(L, LUA_UTF8LIBNAME);
}

/* debug.traceback (text) -> text with the stack behind it; another value as it is */
static int l_traceback(lua_State *L)
{
	script_check(L);
	lua_settop(L, 1);
	if (!lua_isnil(L, 1) && !lua_isstring(L, 1))
		return 1;
	luaL_traceback(L, L, lua_tostring(L, 1), 1);
	return 1;
}

static void add_field(lua_State *L, int template, const char *library, const char *name)
{
	lua_getfield(L, template, library);
	lua_insert(L, -2);
	lua_setfield(L, -2, name);
	lua_pop(L, 1);
}

/* Libraries that scripts do not have, all but empty: many a module names a function of
 * theirs when it is loaded, and calls it never or seldom. */
static void add_mentioned(lua_State *L, int template)
{
	static const char *const names[] = { LUA_COLIBNAME, LUA_DBLIBNAME, LUA_IOLIBNAME,
					     LUA_OSLIBNAME, LUA_LOADLIBNAME };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		lua_newtable(L);
		hints_guard(L, names[i], HINTS_EXPLAIN);
		lua_setfield(L, template, names[i]);
	}
	lua_pushcfunction(L, l_traceback);
	add_field(L, template, LUA_DBLIBNAME, "traceback");
	lua_pushliteral(L, "/\n;\n?\n!\n-\n"); /* as any Lua on such a system */
	add_field(L, template, LUA_LOADLIBNAME, "config");
}

static int l_open(lua_State *L)
{
	struct sandbox *sandbox = lua_touserdata(L, 1);

	lua_remove(L, 1);
	read_only_open(L);
	open_libraries(L); /* 1 */
	lua_newtable(L);   /* 2: the template */
	for (const char *const *name = globals; *name; name++) {
		lua_getfield(L, 1, *name);
		lua_setfield(L, 2, *name);
	}
	lua_pushlightuserdata(L, sandbox);
	lua_pushcclosure(L, l_require, 1);
	lua_setfield(L, 2, "require");
	add_mentioned(L, 2);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &template_key);
	lua_newtable(L);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &modules_key);
	/* Modules outside of the template are collected. */
	lua_pushnil(L);
	lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
	lua_newtable(L);
	lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
	return 0;
}

void sandbox_open(lua_State *L, struct sandbox *sandbox)
{
	lua_pushcfunction(L, l_open);
	lua_pushlightuserdata(L, sandbox);
	lua_call(L, 1, 0);
}

void sandbox_add_global(lua_State *L, const char *name)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &template_key);
	lua_insert(L, -2);
	lua_setfield(L, -2, name);
	lua_pop(L, 1);
}
