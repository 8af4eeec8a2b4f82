/* source.h: a file of Lua text, read whole. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SOURCE_MAX_BYTES (256 * 1024)

struct source {
	char *data; /* NULL when nothing was read */
	size_t len;
	uint64_t hash;
};

/* Read a regular file. Others are refused: a pipe in the directory must not block.
 *
 * @param name  what the error calls the file
 * @return      TIDE_OK; TIDE_ENOTFOUND no such file; TIDE_ERULE unreadable, no
 *              regular file or larger than SOURCE_MAX_BYTES */
TIDE_MUST_USE int source_read(struct source *out, const char *path, const char *name,
			      struct error *err);
/* Read a regular file of at most `max` bytes. A link is followed.
 *
 * @param out  has room for a byte more
 * @return     0; -ENOTSUP no regular file; -EFBIG too large; another -errno */
TIDE_MUST_USE int source_read_regular(const char *path, char *out, size_t max,
				      size_t *len);
/* Harmless when nothing was read, and when called twice. */
void source_free(struct source *s);

/* FNV-1a of 64 bits, then the finaliser of MurmurHash3: FNV alone leaves the high bits of
 * short texts nearly equal. Scripts have it as tide.hash. */
uint64_t source_hash(const char *data, size_t len);
