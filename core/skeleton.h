/* skeleton.h: a script to start from, with its spec: `tidemq rules new`. The texts are in
 * lua/new, with the name as @NAME@. */
#pragma once

#include "base/error.h"

struct skeleton {
	const char *kind, *name;
	const char *rules_dir; /* which gets kind/name.lua and kind/name_spec.lua */
	const char *lua_dir;
};

/* Nothing is overwritten. TIDE_ENOTFOUND: no such kind; TIDE_ESYNTAX: the name is none;
 * TIDE_EEXISTS; TIDE_ERULE: a file cannot be read or written. */
TIDE_MUST_USE int skeleton_write(const struct skeleton *s, struct error *err);
