#include "gate_dir.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rules/engine/engine.h"

#define SCRIPT_END ".lua"
#define SPEC_END "_spec.lua"
#define DEPTH_MAX 8
#define ENTRIES_MAX 10000

/* nftw has no context. */
static int remove_entry(const char *path, const struct stat *st, int type,
			struct FTW *ftw)
{
	remove(path);
	return 0;
}

void gate_dir_remove(const char *dir)
{
	nftw(dir, remove_entry, DEPTH_MAX, FTW_DEPTH | FTW_PHYS);
}

bool gate_dir_make(const char *path, mode_t mode)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return true;
	if (errno != EEXIST || lstat(path, &st) != 0)
		return false;
	errno = S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
	return S_ISDIR(st.st_mode);
}

const char *gate_dir_explain(int error)
{
	return error == ELOOP ? "a folder on the way is a symbolic link, which is not "
				"followed"
			      : strerror(error);
}

/* The folders above the file. */
static void make_folders(char *path, size_t from)
{
	for (char *slash = path + from; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0700); /* what is there already is no harm */
		*slash = '/';
	}
}

static bool write_file(const char *path, const struct bundle_file *f)
{
	FILE *out = fopen(path, "wx");
	bool is_written;

	if (!out)
		return false;
	is_written = fwrite(f->text, 1, f->len, out) == f->len;
	return fclose(out) == 0 && is_written;
}

bool gate_dir_write(const struct bundle *files, const char *dir)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < files->count; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", dir, files->files[i].path) >=
		    (int)sizeof(path)) {
			errno = ENAMETOOLONG;
			return false;
		}
		make_folders(path, strlen(dir) + 1);
		if (!write_file(path, &files->files[i]))
			return false;
	}
	return true;
}

static bool is_script_folder(const char *name)
{
	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++)
		if (strcmp(name, script_kind_name((enum script_kind)kind)) == 0)
			return true;
	return false;
}

/* A script of the directory would be one more rule beside the files. */
static bool is_wanted(const char *name, bool may_be_script)
{
	return name[0] != '.' &&
	       !(may_be_script && slice_has_suffix(slice_from(name), SCRIPT_END) &&
		 !slice_has_suffix(slice_from(name), SPEC_END));
}

/* A way through the specs' directory. Links may lead back, and to anywhere: the entries
 * that it looks at are bounded. */
struct spec_walk {
	unsigned left;
	bool is_search; /* nothing is made */
	bool has_spec;
};

static bool link_others(struct spec_walk *w, const char *from, const char *to, int depth,
			bool is_script_dir);

static bool link_entry(struct spec_walk *w, const char *from, const char *to,
		       const char *name, int depth)
{
	char source[PATH_MAX], target[PATH_MAX];
	struct stat st;

	if (snprintf(source, PATH_MAX, "%s/%s", from, name) >= PATH_MAX ||
	    snprintf(target, PATH_MAX, "%s/%s", to, name) >= PATH_MAX ||
	    stat(source, &st) != 0)
		return true; /* a link to nowhere, say: no spec can need it */
	if (S_ISDIR(st.st_mode)) {
		if (!w->is_search)
			mkdir(target, 0700);
		return link_others(w, source, target, depth + 1,
				   depth == 0 && is_script_folder(name));
	}
	if (!S_ISREG(st.st_mode))
		return true;
	w->has_spec |= slice_has_suffix(slice_from(name), SPEC_END);
	return w->is_search || symlink(source, target) == 0 || errno == EEXIST;
}

static bool link_others(struct spec_walk *w, const char *from, const char *to, int depth,
			bool is_script_dir)
{
	DIR *dir = depth < DEPTH_MAX ? opendir(from) : NULL;
	struct dirent *entry;
	bool is_done = true;

	while (dir && is_done && (entry = readdir(dir)) != NULL) {
		if (w->left == 0) {
			errno = E2BIG;
			is_done = false;
			break;
		}
		w->left--;
		if (is_wanted(entry->d_name, is_script_dir))
			is_done = link_entry(w, from, to, entry->d_name, depth);
	}
	if (dir)
		closedir(dir);
	return is_done;
}

bool gate_dir_has_specs(const char *dir)
{
	struct spec_walk w = { .left = ENTRIES_MAX, .is_search = true };
	bool is_whole = link_others(&w, dir, "", 0, false);

	return w.has_spec || !is_whole;
}

int gate_dir_create(const struct bundle *files, const char *specs_dir, char out[PATH_MAX],
		    struct error *err)
{
	struct spec_walk w = { .left = ENTRIES_MAX };
	char source[PATH_MAX];
	const char *parent = getenv("TMPDIR");

	snprintf(out, PATH_MAX, "%s/tidemq-specs-XXXXXX",
		 parent && parent[0] == '/' ? parent : "/tmp");
	if (!mkdtemp(out)) {
		error_set(err, TIDE_ERULE,
			  "cannot create the directory '%s' for the specs: %s", out,
			  strerror(errno));
		out[0] = '\0';
		return TIDE_ERULE;
	}
	if (!gate_dir_write(files, out) ||
	    (specs_dir &&
	     (!realpath(specs_dir, source) || !link_others(&w, source, out, 0, false)))) {
		error_set(err, TIDE_ERULE, "cannot write the files into '%s': %s", out,
			  w.left == 0 ? "the directory of the specs has more than 10000 "
					"entries"
				      : strerror(errno));
		gate_dir_remove(out);
		out[0] = '\0';
		return TIDE_ERULE;
	}
	return TIDE_OK;
}
