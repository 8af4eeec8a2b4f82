#include "script_kind.h"

#include <string.h>

#include "base/slice.h"

static const char *const names[SCRIPT_KIND_COUNT] = { "routing", "sharding", "priority",
						      "retry",   "filter",   "schedule" };

const char *script_kind_name(enum script_kind kind)
{
	return names[kind];
}

bool script_kind_is_file(const char *name)
{
	return name[0] != '.' && name[0] != '#' &&
	       slice_has_suffix(slice_from(name), ".lua") &&
	       !slice_has_suffix(slice_from(name), "_spec.lua");
}

bool script_kind_is_path(const char *path)
{
	const char *slash = strchr(path, '/');

	if (!slash || strchr(slash + 1, '/') || !script_kind_is_file(slash + 1))
		return false;
	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++) {
		size_t len = strlen(names[kind]);

		if (len == (size_t)(slash - path) && memcmp(path, names[kind], len) == 0)
			return true;
	}
	return false;
}
