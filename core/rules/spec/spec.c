#include "spec.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A spec that talks to the network would pass here and fail there. One that ends the
 * process would be taken for one that passes: only busted ends it, when all have run. */
static const char prelude[] =
	"local dir = ...\n"
	"for _, name in ipairs { 'socket', 'socket.core', 'socket.unix' } do\n"
	"  package.preload[name] = function() error('specs of rules have no network', 0) "
	"end\n"
	"end\n"
	"local has, compatibility = pcall(require, 'busted.compatibility')\n"
	"if has then\n"
	"  local exit, by_busted = os.exit, compatibility.exit\n"
	"  compatibility.exit = function(...) os.exit = exit; by_busted(...) end\n"
	"  os.exit = function() error('os.exit: specs do not end the process', 2) end\n"
	"end\n"
	"local ok, runner = pcall(require, 'busted.runner')\n"
	"if not ok then\n"
	"  io.stderr:write('tidemq: busted for Lua 5.4 is needed and was not found '\n"
	"    .. '(Debian: lua-busted)\\n')\n"
	"  return 1\n"
	"end\n"
	"package.path = dir .. '/?.lua;' .. package.path\n"
	"arg = { [0] = 'tidemq test', '--ignore-lua', '--pattern=_spec%.lua$', "
	"'--output=plainTerminal', "
	"dir }\n"
	"runner { standalone = false, output = 'plainTerminal' }\n";

static int open_state(lua_State *L, const char *dir, const char *lua_dir)
{
	luaL_openlibs(L);
	lua_pushstring(L, dir);
	lua_setfield(L, LUA_REGISTRYINDEX, "rules");
	lua_pushstring(L, lua_dir);
	lua_setfield(L, LUA_REGISTRYINDEX, "lua");
	luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
	lua_pushcfunction(L, spec_module_open);
	lua_setfield(L, -2, "tidemq");
	lua_settop(L, 0);
	return luaL_loadbufferx(L, prelude, strlen(prelude), "=tidemq test", "t");
}

int spec_run(const char *dir, const char *lua_dir)
{
	lua_State *L = luaL_newstate();
	int rc;

	if (!L) {
		fprintf(stderr, "tidemq: out of memory for a Lua state\n");
		return 1;
	}
	/* Not the door of script.h: a spec is a program of its author, not a rule.
	 * busted ends the process itself, with the status that it should have. */
	rc = open_state(L, dir, lua_dir);
	if (rc == LUA_OK) {
		lua_pushstring(L, dir);
		rc = lua_pcall(L, 1, 1, 0);
	}
	if (rc != LUA_OK)
		fprintf(stderr, "tidemq: %s\n", luaL_tolstring(L, -1, NULL));
	bool has_run = rc == LUA_OK && lua_isnil(L, -1);
	lua_close(L);
	return has_run ? 0 : 1;
}
