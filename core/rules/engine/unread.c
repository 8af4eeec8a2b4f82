#include "unread.h"

#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "host/log.h"
#include "generation.h"

#define EXTENSION ".lua"

struct search {
	const struct generation *generation;
	unread_fn *on_file;
	void *ctx;
};

static bool is_in_folder(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && path[len] == '/';
}

static const char *kind_folder(const char *path)
{
	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++) {
		const char *name = script_kind_name((enum script_kind)kind);

		if (is_in_folder(path, name))
			return name;
	}
	return NULL;
}

/* The kind whose folder this one was probably meant to be ("filters", "retries",
 * "Priority": all letters of the kind but the last); NULL for none. */
static const char *similar_folder(const char *path)
{
	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++) {
		const char *name = script_kind_name((enum script_kind)kind);

		if (strchr(path, '/') && strncasecmp(path, name, strlen(name) - 1) == 0)
			return name;
	}
	return NULL;
}

/* `require "a.b"` loads a/b.lua, never a/b/init.lua. */
static void explain_init(const char *path, struct buf *why)
{
	int len = (int)(strlen(path) - strlen("/init" EXTENSION));

	buf_append_text(why, "is not loaded: require \"");
	for (int i = 0; i < len; i++)
		buf_append_char(why, path[i] == '/' ? '.' : path[i]);
	buf_printf(why, "\" loads %.*s.lua; rename this file to %.*s.lua", len, path, len,
		   path);
}

/* Leaves `why` empty for a file that is loaded or may be a module. */
static void explain(const struct search *s, const char *path, struct buf *why)
{
	const char *folder = kind_folder(path), *similar = similar_folder(path);

	if (bundle_find(s->generation->files, path))
		return;
	if (is_in_folder(path, "tide"))
		buf_append_text(why, "is not loaded: modules that begin with 'tide.' "
				     "belong to the framework; move this file to another "
				     "folder");
	else if (folder && strchr(path + strlen(folder) + 1, '/'))
		buf_printf(why,
			   "is not loaded: only files directly in %s/ are scripts, and "
			   "no script requires this one; move it to %s/",
			   folder, folder);
	else if (!folder && similar)
		buf_printf(why, "is not loaded: %s scripts belong in %s/, not in %.*s/",
			   similar, similar, (int)strcspn(path, "/"), path);
	else if (!folder && slice_has_suffix(slice_from(path), "/init" EXTENSION))
		explain_init(path, why);
}

static void visit(const struct search *s, FTS *tree, FTSENT *entry, const char *path)
{
	bool is_folder = entry->fts_info == FTS_D;
	struct buf why = { 0 };

	if (is_folder && entry->fts_name[0] == '.') {
		fts_set(tree, entry, FTS_SKIP);
		return;
	}
	if (is_folder && slice_has_suffix(slice_from(path), EXTENSION))
		buf_append_text(&why, "is a folder, but a script must be a file; nothing "
				      "in it is loaded");
	else if (!is_folder && script_kind_is_file(entry->fts_name))
		explain(s, path, &why);
	if (buf_len(&why))
		s->on_file(s->ctx, path, buf_cstr(&why));
	buf_deinit(&why);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

void unread_each(const char *rules_dir, const struct generation *g, unread_fn *on_file,
		 void *ctx)
{
	const struct search search = { g, on_file, ctx };
	char *roots[] = { (char *)rules_dir, NULL };
	FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
	size_t skip = strlen(rules_dir);
	FTSENT *entry;

	if (!tree)
		return;
	skip += rules_dir[skip - 1] != '/';
	while ((entry = fts_read(tree)))
		if (entry->fts_level > 0 && entry->fts_info != FTS_DP)
			visit(&search, tree, entry, entry->fts_path + skip);
	fts_close(tree);
}

static void add_hash(void *ctx, const char *path, const char *why)
{
	uint64_t *hash = ctx;

	*hash = *hash * 31 + source_hash(path, strlen(path));
}

static void warn(void *ctx, const char *path, const char *why)
{
	log_warn("%s: %s %s", (const char *)ctx, path, why);
}

void unread_warn(const char *about, const char *rules_dir, const struct generation *g,
		 uint64_t *known)
{
	uint64_t hash = 0;

	unread_each(rules_dir, g, add_hash, &hash);
	if (hash != *known)
		unread_each(rules_dir, g, warn, (void *)about);
	*known = hash;
}
