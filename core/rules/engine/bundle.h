/* bundle.h: the files of a generation, by their path in the rules directory.
 *
 * What was loaded is kept as it was read, so that a generation can be loaded
 * again after its files are gone. Files are sorted by path; nothing in a bundle
 * changes once it is shared. Reference counted, not thread safe. */
#ifndef TIDE_RULES_ENGINE_BUNDLE_H
#define TIDE_RULES_ENGINE_BUNDLE_H

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

/* A copy of the text. A path that is there already stays as it is. */
void bundle_add(struct bundle *b, const char *path, struct slice text);
/* NULL when there is no such file. */
const struct bundle_file *bundle_find(const struct bundle *b, const char *path);
/* Of all paths and texts: equal for equal bundles. */
uint64_t bundle_hash(const struct bundle *b);

/* The way from one bundle to another; either may be NULL, for none. */
enum bundle_change { BUNDLE_ADDED, BUNDLE_CHANGED, BUNDLE_REMOVED };
typedef void (*bundle_change_fn)(void *ctx, enum bundle_change change, const char *path);
void bundle_compare(const struct bundle *from, const struct bundle *to,
		    bundle_change_fn on_change, void *ctx);

/* Are all files the same that are no scripts, but what scripts `require`? */
bool bundle_has_same_modules(const struct bundle *a, const struct bundle *b);

/* source_read from `from`, or where that is NULL from the file system, noted in
 * `into`. @param name  the path in the rules directory */
TIDE_MUST_USE int bundle_read(const struct bundle *from, struct bundle *into,
			      struct source *out, const char *path, const char *name,
			      struct error *err);

/* What lies in the directory, without being loaded: the scripts of all kinds,
 * and those other files that `known` has. What cannot be read is left out. */
struct bundle *bundle_scan(const char *rules_dir, const struct bundle *known);

#endif
