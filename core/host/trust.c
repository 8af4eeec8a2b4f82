#include "trust.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_sticky_dir(const struct stat *st)
{
	return S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);
}

static bool may_others_write(const struct stat *st)
{
	bool by_group = (st->st_mode & S_IWGRP) && st->st_gid != getegid();

	return !is_sticky_dir(st) && (by_group || (st->st_mode & S_IWOTH));
}

int trust_check(const char *path, const char *like, struct error *err)
{
	struct stat st, of_like;

	if (stat(path, &st) != 0)
		return error_set(err, TIDE_EDENIED, "'%s' cannot be looked at: %s", path,
				 strerror(errno));
	bool is_like = stat(like, &of_like) == 0 && st.st_uid == of_like.st_uid;
	if (st.st_uid != 0 && st.st_uid != geteuid() && !is_like)
		return error_set(err, TIDE_EDENIED,
				 "'%s' belongs to user %d; it must belong to root, to "
				 "the broker's user or to the owner of '%s'",
				 path, (int)st.st_uid, like);
	if (may_others_write(&st))
		return error_set(err, TIDE_EDENIED,
				 "'%s' can be written by others (mode %04o); take their "
				 "right to write away (chmod go-w)",
				 path, (unsigned)st.st_mode & 07777);
	return TIDE_OK;
}

bool trust_is_within(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return path[0] == '/';
	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}
