#include "spec_files.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/slice.h"

#define LEVELS_MAX 8

struct spec_search {
	char root[PATH_MAX]; /* without links */
	bool follows_links;
	struct spec_files *found;
	struct error *err;
};

/* Does the path, which may be a link, end at a file that is one of the specs? */
static bool is_allowed(const struct spec_search *s, const char *path)
{
	char real[PATH_MAX];
	size_t len = strlen(s->root);
	struct stat st;

	return realpath(path, real) && stat(real, &st) == 0 && S_ISREG(st.st_mode) &&
	       (s->follows_links ||
		(strncmp(real, s->root, len) == 0 && real[len] == '/'));
}

static int search(struct spec_search *s, const char *dir, int level);

static int look_at(struct spec_search *s, const char *dir, const char *name, int level)
{
	char path[PATH_MAX];
	struct stat st;

	if (name[0] == '.' ||
	    snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path) ||
	    lstat(path, &st) != 0)
		return TIDE_OK;
	if (S_ISDIR(st.st_mode))
		return level < LEVELS_MAX ? search(s, path, level + 1) : TIDE_OK;
	if (!slice_has_suffix(slice_from(name), "_spec.lua") || !is_allowed(s, path))
		return TIDE_OK;
	if (s->found->count == SPEC_FILES_MAX)
		return error_set(s->err, TIDE_ELIMIT, "more than %d specs in '%s'",
				 SPEC_FILES_MAX, s->root);
	s->found->paths[s->found->count++] = mem_strdup(path);
	return TIDE_OK;
}

static int search(struct spec_search *s, const char *dir, int level)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	int rc = TIDE_OK;

	if (!d)
		return TIDE_OK;
	while (rc == TIDE_OK && (entry = readdir(d)) != NULL)
		rc = look_at(s, dir, entry->d_name, level);
	closedir(d);
	return rc;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int spec_files_find(const char *dir, bool follows_links, struct spec_files *out,
		    struct error *err)
{
	struct spec_search s = { .follows_links = follows_links,
				 .found = out,
				 .err = err };
	int rc;

	out->count = 0;
	if (!realpath(dir, s.root))
		return error_set(err, TIDE_ENOTFOUND, "'%s' is not a directory", dir);
	rc = search(&s, dir, 1);
	qsort(out->paths, out->count, sizeof(out->paths[0]), by_path);
	if (rc != TIDE_OK)
		spec_files_free(out);
	return rc;
}

void spec_files_free(struct spec_files *f)
{
	while (f->count > 0)
		mem_free(f->paths[--f->count]);
}
