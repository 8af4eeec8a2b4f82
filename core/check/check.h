/* check.h: `tidemq check`: look at a rules directory before it goes live. */
#pragma once

#include <stdbool.h>

#include "base/args.h"

struct check_options {
	const char *dir;
	const char *lua_dir;
	const char *url;             /* of a running broker with definitions; or NULL */
	const char *definitions;     /* a file of them; or NULL */
	const struct args *settings; /* behind tide.setting */
	bool is_json;                /* findings_print_json alone */
};

/* Load every script as a broker would, run luacheck where it is installed, and compare
 * the rules with the definitions, if there are any. Prints the findings.
 *
 * @return  exit status: 0 no problem, 1 problems, 2 the file of definitions cannot be
 *          read */
int check_run(const struct check_options *o);
