/* rules_dir.h: which scripts the rules directory, or a bundle, has. */
#pragma once

#include "rules/sandbox/bundle.h"
#include "script_kind.h"

/* File names, sorted. */
struct rules_dir_list {
	char **names;
	size_t count;
};

/* The files of the kind's folder that have the name of a script. A missing folder has
 * none. Free the list in every case. */
TIDE_MUST_USE int rules_dir_list(struct rules_dir_list *out, const char *rules_dir,
				 enum script_kind kind, struct error *err);
/* The same in a bundle. */
void rules_dir_list_bundle(struct rules_dir_list *out, const struct bundle *b,
			   enum script_kind kind);
void rules_dir_list_free(struct rules_dir_list *list);

/* The files in the directory, without loading them: the scripts of all kinds, and the
 * other files that `known` has (may be NULL). Unreadable files are left out. */
struct bundle *rules_dir_scan(const char *rules_dir, const struct bundle *known);

/* Do the bundles differ in scripts at most? The other files are modules. */
bool rules_dir_has_same_modules(const struct bundle *a, const struct bundle *b);

/* @param path  relative to the rules directory
 * @param why   follows the path in a sentence: "is not loaded: ..." */
typedef void rules_dir_unread_fn(void *ctx, const char *path, const char *why);

/* Call `on_file` for each Lua file that nothing loads although its name suggests
 * otherwise, in the order of their names. Modules that no script requires are not
 * reported: they do no harm. Reads the directory; blocks. */
void rules_dir_each_unread(const char *rules_dir, const struct bundle *loaded,
			   rules_dir_unread_fn *on_file, void *ctx);
/* Log a warning for each such file, unless all of them were logged last time.
 *
 * @param about  the first words of the log line
 * @param known  in and out: a hash of the files that were logged last; 0 at first */
void rules_dir_warn_unread(const char *rules_dir, const struct bundle *loaded,
			   const char *about, uint64_t *known);
