/* script_kind.h: the extension points. Each is a folder of the rules directory. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"

#define SCRIPT_NAME_MAX 64

enum script_kind {
	SCRIPT_ROUTING,
	SCRIPT_SHARDING,
	SCRIPT_PRIORITY,
	SCRIPT_RETRY,
	SCRIPT_FILTER,
	SCRIPT_SCHEDULE,
	SCRIPT_AUTH,
	SCRIPT_DELIVER,
	SCRIPT_SETTLED,
	SCRIPT_DECLARE,
	SCRIPT_CONNECT,
	SCRIPT_KIND_COUNT,
};

/* The name of the folder: "routing", ... */
const char *script_kind_name(enum script_kind kind);

/* Scripts of these kinds are asked one after the other, in the order of their names,
 * which may begin with a digit (10-x.lua). */
bool script_kind_is_ordered(enum script_kind kind);

/* Is a script of the kind active when it has a `match`? */
bool script_kind_has_match(enum script_kind kind);

/* Can a script of the kind have this name? A letter (in kinds that are ordered also a
 * digit) or '_', then letters, digits, '_' and '-'. */
bool script_kind_is_name(enum script_kind kind, struct slice name);

/* Does a file of such a folder have the name of a script? Specs (x_spec.lua) and what
 * editors leave behind (.x.lua.swp, #x.lua#, x.lua~) do not. */
bool script_kind_is_file(const char *name);

/* The kind whose folder a path in the rules directory begins with: "routing/topic.lua".
 * `*file` is what follows the folder; NULL, with SCRIPT_KIND_COUNT, for other paths. */
enum script_kind script_kind_of(const char *path, const char **file);

/* script_kind_is_file for such a path, directly in the folder. */
bool script_kind_is_path(const char *path);
