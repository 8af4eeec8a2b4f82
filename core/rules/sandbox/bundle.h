/* bundle.h: the files of a generation, by their path in the rules directory.
 *
 * A bundle keeps what was loaded as it was read. A generation can be loaded from it
 * again when the files are gone. Files are sorted by path. A shared bundle does not
 * change. Reference counted, not thread safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

struct source;

struct bundle_file {
	char *path; /* "routing/topic.lua" */
	char *text;
	size_t len;
};

struct bundle {
	unsigned refs;
	struct bundle_file *files;
	size_t count;
	size_t bytes; /* of all paths and texts */
};

struct bundle *bundle_create(void);
static inline struct bundle *bundle_ref(struct bundle *b)
{
	b->refs++;
	return b;
}
/* Accepts NULL. */
void bundle_unref(struct bundle *b);

/* Copies the text. A path that the bundle has already keeps its text. */
void bundle_add(struct bundle *b, const char *path, struct slice text);
/* NULL when there is no such file. */
const struct bundle_file *bundle_find(const struct bundle *b, const char *path);
/* Over all paths and texts: equal for equal bundles. */
uint64_t bundle_hash(const struct bundle *b);

/* Is this a module a/init.lua, of which there is also a.lua in the directory? require
 * gives that one. */
bool bundle_is_outranked(const char *dir, const char *path);
/* Are the files in the directory as they are here? */
bool bundle_is_current(const struct bundle *b, const char *dir);

/* The way from one bundle to another; either may be NULL, for none. */
enum bundle_change { BUNDLE_ADDED, BUNDLE_CHANGED, BUNDLE_REMOVED };
typedef void (*bundle_change_fn)(void *ctx, enum bundle_change change, const char *path);
void bundle_compare(const struct bundle *from, const struct bundle *to,
		    bundle_change_fn on_change, void *ctx);

/* Read a file from `from`, or with source_read if that is NULL, and add it to `into`
 * (may be NULL).
 *
 * @param path  in the file system
 * @param name  in the rules directory */
TIDE_MUST_USE int bundle_read(const struct bundle *from, struct bundle *into,
			      struct source *out, const char *path, const char *name,
			      struct error *err);
