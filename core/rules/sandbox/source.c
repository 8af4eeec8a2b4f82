#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

uint64_t source_hash(const char *data, size_t len)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++) {
		hash ^= (unsigned char)data[i];
		hash *= UINT64_C(0x100000001b3);
	}
	hash ^= hash >> 33;
	hash *= UINT64_C(0xff51afd7ed558ccd);
	hash ^= hash >> 33;
	hash *= UINT64_C(0xc4ceb9fe1a85ec53);
	return hash ^ hash >> 33;
}

int source_read_regular(const char *path, char *out, size_t max, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n = 1;
	int rc = 0;

	*len = 0;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		rc = -ENOTSUP;
		n = 0;
	}
	/* A byte more than the limit: the file may grow while it is read. */
	while (n != 0 && *len <= max) {
		n = read(fd, out + *len, max + 1 - *len);
		if (n < 0 && errno != EINTR) {
			rc = -errno;
			break;
		}
		*len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	return rc == 0 && *len > max ? -EFBIG : rc;
}

int source_read(struct source *out, const char *path, const char *name, struct error *err)
{
	char *data = mem_alloc(SOURCE_MAX_BYTES + 1);
	int rc = source_read_regular(path, data, SOURCE_MAX_BYTES, &out->len);

	out->data = NULL;
	if (rc == 0) {
		out->data = mem_realloc(data, out->len + 1);
		out->hash = source_hash(out->data, out->len);
		return TIDE_OK;
	}
	mem_free(data);
	if (rc == -ENOTSUP)
		return error_set(err, TIDE_ERULE, "%s: is not a regular file", name);
	if (rc == -EFBIG)
		return error_set(err, TIDE_ERULE,
				 "%s:1: is larger than %d bytes, the limit for a file",
				 name, SOURCE_MAX_BYTES);
	return error_set(err, rc == -ENOENT ? TIDE_ENOTFOUND : TIDE_ERULE,
			 "%s: cannot be read: %s", name, strerror(-rc));
}

void source_free(struct source *s)
{
	mem_free(s->data);
	*s = (struct source){ .data = NULL };
}
