/* secrets.h: what tide.secret gives: the files of a directory (serve --secrets), which
 * are regular and have at most SECRETS_TEXT_MAX bytes, without their last line end.
 *
 * A secret is read while the scripts are loaded, and stays what it is until the next
 * reload. It is never written anywhere: not into Redis beside the rules, and into no
 * error or log line of a script (hints.h). */
#pragma once

#include <lua.h>
#include <stdbool.h>

#include "base/args.h"
#include "rules/sandbox/hints.h"

#define SECRETS_TEXT_MAX ((size_t)64 * 1024)

struct secrets {
	const char *dir;   /* NULL: there is none */
	struct args given; /* before the files: texts by name, for tests of scripts */
	/* One that is not there is made up: for those who look at scripts. Nothing can be
	 * signed or verified by it. */
	bool has_stand_ins;
	struct hidden hidden; /* what scripts have been given */
};

void secrets_deinit(struct secrets *s);

/* Add tide.secret to `tide`, which is on the top. May raise. */
void secrets_add(lua_State *L, struct secrets *s);
