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

/* Read until end of file. The buffer has one byte more than the limit: a file over the
 * limit is noticed even if its size has changed since it was looked up. */
static int read_all(int fd, char *data, size_t *len)
{
	for (*len = 0; *len <= SOURCE_MAX_BYTES;) {
		ssize_t n = read(fd, data + *len, SOURCE_MAX_BYTES + 1 - *len);
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			*len += (size_t)n;
	}
	return -EFBIG;
}

int source_read(struct source *out, const char *path, const char *name, struct error *err)
{
	struct stat st;

	*out = (struct source){ .data = NULL };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return error_set(err, errno == ENOENT ? TIDE_ENOTFOUND : TIDE_ERULE,
				 "%s: cannot be read: %s", name, strerror(errno));
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return error_set(err, TIDE_ERULE, "%s: is not a regular file", name);
	}
	out->data = mem_alloc(SOURCE_MAX_BYTES + 1);
	int rc = read_all(fd, out->data, &out->len);
	close(fd);
	if (rc == 0) {
		out->data = mem_realloc(out->data, out->len + 1);
		out->hash = source_hash(out->data, out->len);
		return TIDE_OK;
	}
	source_free(out);
	if (rc == -EFBIG)
		return error_set(err, TIDE_ERULE,
				 "%s:1: is larger than %d bytes, the limit for a file",
				 name, SOURCE_MAX_BYTES);
	return error_set(err, TIDE_ERULE, "%s: cannot be read: %s", name, strerror(-rc));
}

void source_free(struct source *s)
{
	mem_free(s->data);
	*s = (struct source){ .data = NULL };
}
