#include "share.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool share_is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The parent of the directory that the binary is in; false when it is unknown. */
static bool checkout_dir(char out[PATH_MAX])
{
	ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	for (int i = 0; i < 2 && len > 0; i++) {
		out[len] = '\0';
		slash = strrchr(out, '/');
		len = slash ? slash - out : 0;
	}
	if (len <= 0)
		return false;
	out[len] = '\0';
	return true;
}

/* @param installed  where it is when it is neither here nor beside the binary */
static const char *find_dir(const char *name, const char *probe, const char *installed,
			    char out[PATH_MAX])
{
	char checkout[PATH_MAX], path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", name, probe);
	if (share_is_dir(path))
		return name;
	if (checkout_dir(checkout)) {
		snprintf(path, sizeof(path), "%s/%s/%s", checkout, name, probe);
		if (share_is_dir(path) &&
		    snprintf(out, PATH_MAX, "%s/%s", checkout, name) < PATH_MAX)
			return out;
	}
	return installed;
}

const char *share_lua_dir(void)
{
	static char dir[PATH_MAX];

	return find_dir("lua", "tide", TIDE_SHARE_DIR "/lua", dir);
}

const char *share_rules_dir(void)
{
	static char dir[PATH_MAX];

	/* One's own may be empty. That of a checkout has all shipped scripts. */
	return share_is_dir("rules") ? "rules"
				     : find_dir("rules", "routing", TIDE_RULES_DIR, dir);
}
