#include "zones.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/table.h"

#define FOLDER "/usr/share/zoneinfo"

struct zones_entry {
	UT_hash_handle hh;
	struct zone *zone;
	char name[ZONES_NAME_MAX + 1];
};

/* As glibc has it. */
static const char *folder(void)
{
	const char *given = getenv("TZDIR");

	return given && given[0] ? given : FOLDER;
}

/* Words of letters, digits, '_', '-' and '+' with slashes between them: no way out of the
 * folder. */
static bool is_name(struct slice name)
{
	char before = '/';

	for (size_t i = 0; i < name.len; i++) {
		char c = name.data[i];

		if (c == '/' ? before == '/'
			     : !isalnum((unsigned char)c) && !memchr("_-+", c, 3))
			return false;
		before = c;
	}
	return name.len > 0 && name.len <= ZONES_NAME_MAX && before != '/';
}

/* The first bytes of the file, at most `max`; -1 and errno. */
static ssize_t read_head(const char *path, char *out, size_t max)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t len = 0;
	ssize_t n = 1;

	if (fd < 0)
		return -1;
	while (n > 0 && len < max) {
		n = read(fd, out + len, max - len);
		len += n > 0 ? (size_t)n : 0;
	}
	int error = errno;
	close(fd);
	errno = error;
	return n < 0 ? -1 : (ssize_t)len;
}

static int read_zone(struct slice name, struct zone **out, struct error *err)
{
	char path[PATH_MAX], data[ZONE_FILE_MAX + 1];
	struct error fault;

	if (snprintf(path, sizeof(path), "%s/%" SLICE_FMT, folder(), SLICE_ARG(name)) >=
	    (int)sizeof(path))
		return error_set(err, TIDE_ETOOLONG, "the path of TZDIR is too long");
	ssize_t len = read_head(path, data, sizeof(data));
	if (len < 0 && access(folder(), F_OK) != 0)
		return error_set(err, TIDE_ENOTFOUND,
				 "time zones need %s; install tzdata", folder());
	if (len < 0 && errno != ENOENT && errno != EISDIR && errno != ENOTDIR)
		return error_set(err, TIDE_ENOTFOUND, "%s cannot be read: %s", path,
				 strerror(errno));
	if (len < 0)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no time zone '%" SLICE_FMT "'",
				 SLICE_ARG(name));
	if (zone_parse((struct slice){ data, (size_t)len }, out, &fault) != TIDE_OK)
		return error_set(err, TIDE_ESYNTAX, "%s is not a time zone: %s", path,
				 fault.text);
	return TIDE_OK;
}

const struct zone *zones_get(struct zones *z, struct slice name, struct error *err)
{
	struct zones_entry *e;
	struct zone *zone;

	HASH_FIND(hh, z->entries, name.data, name.len, e);
	if (e)
		return e->zone;
	if (!is_name(name)) {
		error_set(err, TIDE_ESYNTAX,
			  "'%.*s' is not the name of a time zone, as Europe/Berlin is",
			  SLICE_HEAD(name, ZONES_NAME_MAX));
		return NULL;
	}
	if (slice_is(name, "UTC"))
		zone = zone_utc();
	else if (read_zone(name, &zone, err) != TIDE_OK)
		return NULL;
	e = mem_zalloc(sizeof(*e));
	e->zone = zone;
	memcpy(e->name, name.data, name.len);
	HASH_ADD_KEYPTR(hh, z->entries, e->name, name.len, e);
	return e->zone;
}

void zones_deinit(struct zones *z)
{
	struct zones_entry *e, *next;

	HASH_ITER (hh, z->entries, e, next) {
		HASH_DEL(z->entries, e);
		zone_destroy(e->zone);
		mem_free(e);
	}
}
