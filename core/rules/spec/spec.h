/* spec.h: `tidemq test`: the specs beside rules, run by busted in this process
 * with the real rule engine at hand. */
#ifndef TIDE_RULES_SPEC_SPEC_H
#define TIDE_RULES_SPEC_SPEC_H

#include <lua.h>

/* Run every *_spec.lua below `dir`. In them `require "tidemq"` is the engine
 * (spec_module.c), whose open() loads `dir` when it is told nothing else, no socket
 * module can be had, and os.exit raises. Otherwise they are programs of their author,
 * who is trusted. Prints what busted prints.
 *
 * @return  exit status: 0 all passed, 1 some failed or could not be run */
int spec_run(const char *dir, const char *lua_dir);

/* The module. */
int luaopen_luatide(lua_State *L);

#endif
