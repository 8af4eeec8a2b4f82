/* share.h: where the framework (lua/) and the shipped rules (rules/) are. */
#pragma once

#include <stdbool.h>

bool share_is_dir(const char *path);

/* The directory in the current directory, in the checkout that the binary was built in,
 * or else where it was installed. Static storage. */
const char *share_lua_dir(void);
const char *share_rules_dir(void);
