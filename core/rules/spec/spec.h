/* spec.h: `tidemq test`: busted runs the specs beside the rules, in this process, with
 * the real rule engine as the Lua module "tidemq": sandbox, options, views, reload. The
 * project's own specs load the module as a library (tests/lua/luatide.mk).
 *
 *   local tidemq = require "tidemq"
 *   local engine = assert(tidemq.open { rules = "rules", lua = "lua" })
 *   local s = assert(engine:strategy("retry", "exponential", { base = "500ms" }))
 *   s:decide({}, { failures = 1 })              --> 500
 *
 * docs/rules-testing.md has all functions. A function for a kind of script is
 * engine:<kind>(subject, …).
 *
 * What the engine refuses is nil, a message and an error code. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

struct spec_options {
	const char *dir; /* of the rules, which the module's open() loads by default */
	const char *lua_dir;
	const char *filter; /* run only the tests whose name has this text; NULL: all */
	bool follows_links; /* to specs outside of `dir` */
	int64_t timeout_ms; /* for all specs together; 0: for ever */
	uint64_t memory_max_bytes; /* of the process of the specs; 0: no limit */
};

/* Run every *_spec.lua in `dir` and in its folders, 8 levels deep, in a process of its
 * own. A spec has no socket module, and os.exit raises. Otherwise it is a program of its
 * author, who is trusted.
 *
 * @return  exit status: 0 all passed, 1 some failed or could not be run */
int spec_run(const struct spec_options *options);

/* `tidemq rules repl`: a prompt on standard input, in an engine of its own.
 *
 * @return  exit status */
int spec_prompt(const char *dir, const char *lua_dir);

/* Push the module: a function for `package.preload`. */
int spec_module_open(lua_State *L);
