#include "script_kind.h"

#include <ctype.h>
#include <string.h>

static const char *const names[SCRIPT_KIND_COUNT] = { "routing", "sharding", "priority",
						      "retry",   "filter",   "schedule",
						      "auth",    "deliver",  "settled",
						      "declare", "connect" };

const char *script_kind_name(enum script_kind kind)
{
	return names[kind];
}

bool script_kind_has_match(enum script_kind kind)
{
	return kind == SCRIPT_FILTER || kind >= SCRIPT_DELIVER;
}

bool script_kind_is_ordered(enum script_kind kind)
{
	return kind == SCRIPT_AUTH || script_kind_has_match(kind);
}

bool script_kind_is_name(enum script_kind kind, struct slice name)
{
	if (name.len == 0 || name.len > SCRIPT_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.data[i];
		bool is_later = i > 0 || script_kind_is_ordered(kind);

		if (!isalpha(c) && c != '_' && !(is_later && (isdigit(c) || c == '-')))
			return false;
	}
	return true;
}

bool script_kind_is_file(const char *name)
{
	return name[0] != '.' && name[0] != '#' &&
	       slice_has_suffix(slice_from(name), ".lua") &&
	       !slice_has_suffix(slice_from(name), "_spec.lua");
}

enum script_kind script_kind_of(const char *path, const char **file)
{
	enum script_kind kind = 0;

	for (; kind < SCRIPT_KIND_COUNT; kind++) {
		size_t len = strlen(names[kind]);

		if (strncmp(path, names[kind], len) == 0 && path[len] == '/') {
			*file = path + len + 1;
			return kind;
		}
	}
	*file = NULL;
	return kind;
}

bool script_kind_is_path(const char *path)
{
	const char *file;

	script_kind_of(path, &file);
	return file && !strchr(file, '/') && script_kind_is_file(file);
}
