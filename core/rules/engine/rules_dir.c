#include "rules_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "rules/sandbox/source.h"

#define EXTENSION ".lua"
#define MODULE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

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

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* False for one that cannot be read: who loads the file reports it. A folder is none. */
static bool scan_file(struct bundle *b, const char *rules_dir, const char *name)
{
	char path[PATH_MAX];
	struct source source;
	struct error ignored;

	if (snprintf(path, sizeof(path), "%s/%s", rules_dir, name) >= (int)sizeof(path))
		return false;
	if (bundle_read(NULL, b, &source, path, name, &ignored) != TIDE_OK)
		return is_folder(path);
	source_free(&source);
	return true;
}

static bool scan_kind(struct bundle *b, const char *rules_dir, enum script_kind kind)
{
	char name[PATH_MAX];
	struct rules_dir_list list;
	struct error ignored;
	bool is_whole = rules_dir_list(&list, rules_dir, kind, &ignored) == TIDE_OK;

	for (size_t i = 0; i < list.count; i++) {
		snprintf(name, sizeof(name), "%s/%s", script_kind_name(kind),
			 list.names[i]);
		is_whole &= scan_file(b, rules_dir, name);
	}
	rules_dir_list_free(&list);
	return is_whole;
}

static struct bundle *scan(const char *rules_dir, const struct bundle *known,
			   bool *is_whole)
{
	struct bundle *b = bundle_create();

	*is_whole = true;
	for (unsigned kind = 0; kind < script_kind_count; kind++)
		*is_whole &= scan_kind(b, rules_dir, (enum script_kind)kind);
	for (size_t i = 0; known && i < known->count; i++)
		*is_whole &= scan_file(b, rules_dir, known->files[i].path);
	return b;
}

struct bundle *rules_dir_scan(const char *rules_dir, const struct bundle *known)
{
	bool is_whole;

	return scan(rules_dir, known, &is_whole);
}

bool rules_dir_is_current(const char *rules_dir, const struct bundle *known)
{
	bool is_whole;
	struct bundle *found = scan(rules_dir, known, &is_whole);
	bool is_same = is_whole && bundle_hash(found) == bundle_hash(known);

	for (size_t i = 0; i < known->count && is_same; i++)
		is_same = !bundle_is_outranked(rules_dir, known->files[i].path);
	bundle_unref(found);
	return is_same;
}

static void look_at_change(void *ctx, enum bundle_change change, const char *path)
{
	struct rules_dir_difference *d = ctx;
	const char *file;

	if (script_kind_is_path(path))
		d->scripts[script_kind_of(path, &file)] = true;
	else
		d->modules = true;
}

struct rules_dir_difference rules_dir_compare(const struct bundle *a,
					      const struct bundle *b)
{
	struct rules_dir_difference d = { 0 };

	bundle_compare(a, b, look_at_change, &d);
	return d;
}

#define COPIED "rules/"

struct search {
	const struct bundle *loaded;
	rules_dir_unread_fn *on_file;
	void *ctx;
	size_t skip; /* of a path, to its part in the rules directory */
};

/* The kind whose folder this one was probably meant to be ("filters", "retries",
 * "Priority": all letters of the kind but the last, and at least four); NULL for none. */
static const char *similar_folder(const char *path)
{
	for (unsigned kind = 0; kind < script_kind_count; kind++) {
		const char *name = script_kind_name((enum script_kind)kind);
		size_t len = strlen(name) > 4 ? strlen(name) - 1 : 4;

		if (strchr(path, '/') && strncasecmp(path, name, len) == 0)
			return name;
	}
	return NULL;
}

/* The kind of a script in a rules directory that was copied into this one. */
static const char *kind_below(const char *path)
{
	const char *file;
	enum script_kind kind;

	if (strncmp(path, COPIED, strlen(COPIED)) != 0)
		return NULL;
	kind = script_kind_of(path + strlen(COPIED), &file);
	return file ? script_kind_name(kind) : NULL;
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
	else if (kind_below(path))
		buf_printf(why,
			   "is not loaded: %s scripts belong in %s/, not in " COPIED
			   "%s/",
			   kind_below(path), kind_below(path), kind_below(path));
	else if (s->loaded->count == 0 && !strchr(path, '/'))
		buf_append_text(why, "is not loaded: scripts belong in the folder of "
				     "their kind, such as filter/ or retry/");
}

/* A file beside the folders of scripts. */
static void report_module(const struct search *s, const char *path)
{
	int len = (int)(strlen(path) - strlen(EXTENSION));
	struct buf why = { 0 };

	if (strspn(path, MODULE_LETTERS) == (size_t)len)
		buf_printf(&why,
			   "is a module, for scripts that say require \"%.*s\", and none "
			   "does; ",
			   len, path);
	else
		buf_append_text(&why, "is read by nothing; ");
	buf_append_text(&why, "scripts belong in the folder of their kind, such as "
			      "filter/ or retry/");
	s->on_file(s->ctx, path, buf_cstr(&why), true);
	buf_deinit(&why);
}

static void report(const struct search *s, const char *path, bool is_folder)
{
	struct buf why = { 0 };

	if (!is_folder)
		explain(s, path, &why);
	else if (slice_has_suffix(slice_from(path), EXTENSION))
		buf_append_text(&why, "is a folder, but a script must be a file; nothing "
				      "in it is loaded");
	if (buf_len(&why))
		s->on_file(s->ctx, path, buf_cstr(&why), false);
	else if (!is_folder && !strchr(path, '/') && !bundle_find(s->loaded, path))
		report_module(s, path);
	buf_deinit(&why);
}

static int by_file_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* A link counts when it leads to a file. Folders behind links are not looked into: a link
 * may lead to anywhere, and back. */
static void look_at_entry(const struct search *s, FTS *tree, FTSENT *entry)
{
	bool is_folder = entry->fts_info == FTS_D || entry->fts_info == FTS_DNR;
	struct stat st;

	if (entry->fts_name[0] == '.' ||
	    (is_folder && entry->fts_level > RULES_DIR_DEPTH_MAX))
		fts_set(tree, entry, FTS_SKIP);
	if (entry->fts_name[0] == '.' ||
	    (!is_folder && (!script_kind_is_file(entry->fts_name) ||
			    stat(entry->fts_path, &st) != 0 || !S_ISREG(st.st_mode))))
		return;
	report(s, entry->fts_path + s->skip, is_folder);
}

void rules_dir_each_unread(const char *rules_dir, const struct bundle *loaded,
			   rules_dir_unread_fn *on_file, void *ctx)
{
	struct search search = { loaded, on_file, ctx, 0 };
	size_t left = RULES_DIR_ENTRIES_MAX;
	char path[PATH_MAX];
	char *const roots[] = { path, NULL };
	FTSENT *entry;
	size_t len = strlen(rules_dir);

	while (len > 1 && rules_dir[len - 1] == '/')
		len--;
	if (len >= sizeof(path))
		return;
	snprintf(path, sizeof(path), "%.*s", (int)len, rules_dir);
	search.skip = len + 1;
	FTS *tree =
		fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_file_name);
	while (tree && left > 0 && (entry = fts_read(tree))) {
		if (entry->fts_level == 0 || entry->fts_info == FTS_DP)
			continue;
		left--;
		look_at_entry(&search, tree, entry);
	}
	if (tree)
		fts_close(tree);
	if (left == 0)
		on_file(ctx, ".",
			"has more than " RULES_DIR_ENTRIES_TEXT
			" entries; not all of them were looked at",
			false);
}

struct summary {
	struct buf *out;
	size_t count;
};

static void summarise(void *ctx, const char *path, const char *why, bool is_module)
{
	struct summary *s = ctx;

	if (is_module)
		return;
	/* A remark about the whole directory is never among those that are counted. */
	if (strcmp(path, ".") == 0 || ++s->count <= RULES_DIR_UNREAD_MAX)
		buf_printf(s->out, "%s%s %s", buf_len(s->out) ? "; " : "", path, why);
}

void rules_dir_describe_unread(const char *rules_dir, const struct bundle *loaded,
			       struct buf *out)
{
	struct summary s = { out, 0 };

	rules_dir_each_unread(rules_dir, loaded, summarise, &s);
	if (s.count > RULES_DIR_UNREAD_MAX)
		buf_printf(out, "; and %zu more (tidemq check shows all)",
			   s.count - RULES_DIR_UNREAD_MAX);
}
