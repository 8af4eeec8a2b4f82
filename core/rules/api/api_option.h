/* api_option.h: tide.check_option(kind, name, value): may a policy set this option? */
#pragma once

#include <lua.h>

#include "base/args.h"
#include "base/error.h"

/* @param kind  "queue", "topic" or "exchange"
 * @return      TIDE_OK; or negative, and `err` has a sentence */
typedef int api_option_fn(const char *kind, const struct arg *option, struct error *err);

/* Add it to the table on the top. `*check` is read when the function is called; NULL:
 * every option may be set. */
void api_option_add(lua_State *L, api_option_fn *const *check);
