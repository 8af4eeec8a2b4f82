/* api_use.h: tide.use(name, settings): what a file returns that is another script of its
 * folder, with settings of its own. rule.c loads it. */
#pragma once

#include <lua.h>
#include <stdbool.h>

#define API_USE_NAME_MAX 64

struct api_use {
	char name[API_USE_NAME_MAX + 1]; /* letters, digits, '_' and '-' */
	int line;                        /* where it was called */
};

/* Add it to the table on the top. */
void api_use_add(lua_State *L);
/* NULL: the value on the top is something else. */
const struct api_use *api_use_at_top(lua_State *L);
/* Push the table of its settings. */
void api_use_push_settings(lua_State *L);
