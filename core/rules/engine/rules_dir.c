#include "rules_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "host/log.h"
#include "rules/sandbox/source.h"

static void add(struct rules_dir_list *list, const char *name)
{
	list->names = mem_realloc(list->names, (list->count + 1) * sizeof(char *));
	list->names[list->count++] = mem_strdup(name);
}

void rules_dir_list_free(struct rules_dir_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		mem_free(list->names[i]);
	mem_free(list->names);
	*list = (struct rules_dir_list){ .names = NULL };
}

static int is_script(const struct dirent *entry)
{
	return script_kind_is_file(entry->d_name);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int rules_dir_list(struct rules_dir_list *out, const char *rules_dir,
		   enum script_kind kind, struct error *err)
{
	char path[PATH_MAX];
	struct dirent **entries;

	*out = (struct rules_dir_list){ .names = NULL };
	if (snprintf(path, sizeof(path), "%s/%s", rules_dir, script_kind_name(kind)) >=
	    (int)sizeof(path))
		return error_set(err, TIDE_ERULE,
				 "the rules directory's path is too long");
	int count = scandir(path, &entries, is_script, by_name);
	if (count < 0 && errno != ENOENT)
		return error_set(err, TIDE_ERULE, "%s: cannot be read: %s", path,
				 strerror(errno));
	for (int i = 0; i < count; i++) {
		add(out, entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return TIDE_OK;
}

void rules_dir_list_bundle(struct rules_dir_list *out, const struct bundle *b,
			   enum script_kind kind)
{
	const char *file;

	*out = (struct rules_dir_list){ .names = NULL };
	for (size_t i = 0; i < b->count; i++) {
		if (script_kind_is_path(b->files[i].path) &&
		    script_kind_of(b->files[i].path, &file) == kind)
			add(out, file);
	}
}

static void scan_file(struct bundle *b, const char *rules_dir, const char *name)
{
	char path[PATH_MAX];
	struct source source;
	struct error ignored; /* who loads the file reports it */

	if (snprintf(path, sizeof(path), "%s/%s", rules_dir, name) >= (int)sizeof(path))
		return;
	if (bundle_read(NULL, b, &source, path, name, &ignored) == TIDE_OK)
		source_free(&source);
}

static void scan_kind(struct bundle *b, const char *rules_dir, enum script_kind kind)
{
	char name[PATH_MAX];
	struct rules_dir_list list;
	struct error ignored;

	if (rules_dir_list(&list, rules_dir, kind, &ignored) != TIDE_OK)
		return;
	for (size_t i = 0; i < list.count; i++) {
		snprintf(name, sizeof(name), "%s/%s", script_kind_name(kind),
			 list.names[i]);
		scan_file(b, rules_dir, name);
	}
	rules_dir_list_free(&list);
}

struct bundle *rules_dir_scan(const char *rules_dir, const struct bundle *known)
{
	struct bundle *b = bundle_create();

	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++)
		scan_kind(b, rules_dir, (enum script_kind)kind);
	for (size_t i = 0; known && i < known->count; i++)
		scan_file(b, rules_dir, known->files[i].path);
	return b;
}

static void look_at_change(void *ctx, enum bundle_change change, const char *path)
{
	bool *is_same = ctx;

	*is_same &= script_kind_is_path(path);
}

bool rules_dir_has_same_modules(const struct bundle *a, const struct bundle *b)
{
	bool is_same = true;

	bundle_compare(a, b, look_at_change, &is_same);
	return is_same;
}

#define EXTENSION ".lua"

struct search {
	const struct bundle *loaded;
	rules_dir_unread_fn *on_file;
	void *ctx;
};

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
	const char *file, *similar = similar_folder(path);
	enum script_kind kind = script_kind_of(path, &file);

	if (bundle_find(s->loaded, path))
		return;
	if (slice_has_prefix(slice_from(path), "tide/"))
		buf_append_text(why, "is not loaded: modules that begin with 'tide.' "
				     "belong to the framework; move this file to another "
				     "folder");
	else if (file && strchr(file, '/'))
		buf_printf(why,
			   "is not loaded: only files directly in %s/ are scripts, and "
			   "no script requires this one; move it to %s/",
			   script_kind_name(kind), script_kind_name(kind));
	else if (!file && similar)
		buf_printf(why, "is not loaded: %s scripts belong in %s/, not in %.*s/",
			   similar, similar, (int)strcspn(path, "/"), path);
	else if (!file && slice_has_suffix(slice_from(path), "/init" EXTENSION))
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

static int by_file_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

void rules_dir_each_unread(const char *rules_dir, const struct bundle *loaded,
			   rules_dir_unread_fn *on_file, void *ctx)
{
	const struct search search = { loaded, on_file, ctx };
	char *roots[] = { (char *)rules_dir, NULL };
	FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_file_name);
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

void rules_dir_warn_unread(const char *rules_dir, const struct bundle *loaded,
			   const char *about, uint64_t *known)
{
	uint64_t hash = 0;

	rules_dir_each_unread(rules_dir, loaded, add_hash, &hash);
	if (hash != *known)
		rules_dir_each_unread(rules_dir, loaded, warn, (void *)about);
	*known = hash;
}
