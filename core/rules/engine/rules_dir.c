#include "rules_dir.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
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

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int rules_dir_list(struct rules_dir_list *out, const char *rules_dir,
		   enum script_kind kind, struct error *err)
{
	char path[PATH_MAX];
	struct dirent *entry;

	*out = (struct rules_dir_list){ .names = NULL };
	if (snprintf(path, sizeof(path), "%s/%s", rules_dir, script_kind_name(kind)) >=
	    (int)sizeof(path))
		return error_set(err, TIDE_ERULE,
				 "the rules directory's path is too long");
	DIR *dir = opendir(path);
	if (!dir && errno != ENOENT)
		return error_set(err, TIDE_ERULE, "%s: cannot be read: %s", path,
				 strerror(errno));
	while (dir && (entry = readdir(dir))) {
		if (script_kind_is_file(entry->d_name))
			add(out, entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (out->count > 0)
		qsort(out->names, out->count, sizeof(char *), by_name);
	return TIDE_OK;
}

void rules_dir_list_bundle(struct rules_dir_list *out, const struct bundle *b,
			   enum script_kind kind)
{
	size_t len = strlen(script_kind_name(kind));

	*out = (struct rules_dir_list){ .names = NULL };
	for (size_t i = 0; i < b->count; i++) {
		const char *path = b->files[i].path;

		if (script_kind_is_path(path) && path[len] == '/' &&
		    strncmp(path, script_kind_name(kind), len) == 0)
			add(out, path + len + 1);
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
