/* spec.h: `tidemq test`: busted runs the specs beside the rules, in this process, with
 * the real rule engine. */
#ifndef TIDE_RULES_SPEC_SPEC_H
#define TIDE_RULES_SPEC_SPEC_H

/* Run every *_spec.lua below `dir`. In a spec `require "tidemq"` is the engine
 * (spec_module.h): its open() loads `dir` by default. A spec has no socket module, and
 * os.exit raises. Otherwise it is a program of its author, who is trusted. Prints what
 * busted prints.
 *
 * @return  exit status: 0 all passed, 1 some failed or could not be run */
int spec_run(const char *dir, const char *lua_dir);

#endif
