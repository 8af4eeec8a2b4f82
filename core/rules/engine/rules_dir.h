/* rules_dir.h: which scripts the rules directory, or a bundle, has. */
#pragma once

#include "rules/sandbox/bundle.h"
#include "base/buf.h"
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

/* Has the directory the files of `known`, and no other scripts? */
bool rules_dir_is_current(const char *rules_dir, const struct bundle *known);

/* In what two bundles differ. Files that are no scripts are modules. */
struct rules_dir_difference {
	bool modules;
	bool scripts[SCRIPT_KINDS_MAX];
};
struct rules_dir_difference rules_dir_compare(const struct bundle *a,
					      const struct bundle *b);

/* @param path       relative to the rules directory
 * @param why        follows the path in a sentence: "is not loaded: ..."
 * @param is_module  it may be right as it is */
typedef void rules_dir_unread_fn(void *ctx, const char *path, const char *why,
				 bool is_module);

/* The walk over the directory: its depth, and the entries of all folders together. Links
 * to folders are not followed. */
#define RULES_DIR_DEPTH_MAX 8
#define RULES_DIR_ENTRIES_MAX 10000
#define RULES_DIR_ENTRIES_TEXT "10000"

/* Call `on_file` for each Lua file that nothing loads although its name suggests
 * otherwise, in the order of their names, and for modules beside the folders of scripts
 * that no script requires. Other modules that no script requires are not reported: they
 * do no harm. Reads the directory; blocks. */
void rules_dir_each_unread(const char *rules_dir, const struct bundle *loaded,
			   rules_dir_unread_fn *on_file, void *ctx);
/* Append the first RULES_DIR_UNREAD_MAX unread files, and the number of further ones.
 * Modules are left out. */
#define RULES_DIR_UNREAD_MAX 8
void rules_dir_describe_unread(const char *rules_dir, const struct bundle *loaded,
			       struct buf *out);
