/* script_kind.h: the extension points. Each is a folder of the rules directory. */
#ifndef TIDE_RULES_ENGINE_SCRIPT_KIND_H
#define TIDE_RULES_ENGINE_SCRIPT_KIND_H

#include <stdbool.h>

enum script_kind {
	SCRIPT_ROUTING,
	SCRIPT_SHARDING,
	SCRIPT_PRIORITY,
	SCRIPT_RETRY,
	SCRIPT_FILTER,
	SCRIPT_SCHEDULE,
	SCRIPT_KIND_COUNT,
};

/* The name of the folder: "routing", ... */
const char *script_kind_name(enum script_kind kind);

/* Does a file of such a folder have the name of a script? Specs (x_spec.lua) and what
 * editors leave behind (.x.lua.swp, #x.lua#, x.lua~) do not. */
bool script_kind_is_file(const char *name);

/* The same for a path in the rules directory: "routing/topic.lua". */
bool script_kind_is_path(const char *path);

#endif
