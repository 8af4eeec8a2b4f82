#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rules/engine/engine.h"
#include "rules/engine/rules_dir.h"

#define SCRIPT_END ".lua"
#define SPEC_END "_spec.lua"
#define DEPTH_MAX 8
#define ENTRIES_MAX 10000
#define MADE "tidemq-specs-" /* how the names of directories begin that are made */
#define MAKE_ROUNDS_MAX 5
#define LIST FILES_FOLDER "/list"
#define LIST_DRAFT LIST ".new"

/* nftw has no context. */
static int remove_entry(const char *path, const struct stat *st, int type,
			struct FTW *ftw)
{
	remove(path);
	return 0;
}

void files_remove(const char *dir)
{
	nftw(dir, remove_entry, DEPTH_MAX, FTW_DEPTH | FTW_PHYS);
}

bool files_make_folder(const char *path, mode_t mode)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return true;
	if (errno != EEXIST || lstat(path, &st) != 0)
		return false;
	errno = S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
	return S_ISDIR(st.st_mode);
}

const char *files_explain(int error)
{
	return error == ELOOP ? "a folder on the way is a symbolic link, which is not "
				"followed"
			      : strerror(error);
}

/* @param name  relative to the directory; "" itself */
static bool format_path(const char *dir, const char *name, char out[PATH_MAX])
{
	if (snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

/* Call `fn` for each folder above the file, the outermost first. */
static bool each_folder(const char *dir, const char *name,
			bool (*fn)(const char *dir, const char *folder))
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s", name);
	for (char *slash = folder; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		if (!fn(dir, folder))
			return false;
		*slash = '/';
	}
	return true;
}

/* A folder that files will be written into, or that is there. */
static bool make_folder(const char *dir, const char *folder)
{
	char path[PATH_MAX];

	return format_path(dir, folder, path) && files_make_folder(path, 0755);
}

static bool write_file(const char *path, struct slice text, bool must_sync)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return false;
	while (text.len > 0) {
		ssize_t n = write(fd, text.data, text.len);

		if (n <= 0)
			break;
		text = slice_skip(text, (size_t)n);
	}
	bool is_written = text.len == 0 && (!must_sync || fsync(fd) == 0);
	return close(fd) == 0 && is_written;
}

bool files_write(const struct bundle *files, const char *dir)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < files->count; i++) {
		const struct bundle_file *f = &files->files[i];

		if (!format_path(dir, f->path, path) ||
		    !each_folder(dir, f->path, make_folder) ||
		    !write_file(path, (struct slice){ f->text, f->len }, false))
			return false;
	}
	return true;
}

/* A directory for specs. */

static bool is_script_folder(const char *name)
{
	for (unsigned kind = 0; kind < script_kind_count; kind++)
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

bool files_has_specs(const char *dir)
{
	struct spec_walk w = { .left = ENTRIES_MAX, .is_search = true };
	bool is_whole = link_others(&w, dir, "", 0, false);

	return w.has_spec || !is_whole;
}

static int is_made(const struct dirent *entry)
{
	return strncmp(entry->d_name, MADE, sizeof(MADE) - 1) == 0;
}

/* Open and lock; -1: it is somebody's, or is no directory of ours. */
static int lock_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat here, there;

	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &here) == 0 &&
	    here.st_uid == geteuid() && stat(path, &there) == 0 &&
	    here.st_ino == there.st_ino)
		return fd;
	close(fd);
	return -1;
}

static const char *parent_dir(void)
{
	const char *parent = getenv("TMPDIR");

	return parent && parent[0] == '/' ? parent : "/tmp";
}

/* A process that was killed has left them: nobody holds their locks. */
void files_remove_left(void)
{
	struct dirent **entries;
	const char *parent = parent_dir();
	int count = scandir(parent, &entries, is_made, NULL);
	char path[PATH_MAX];

	for (int i = 0; i < count; i++) {
		int fd = format_path(parent, entries[i]->d_name, path) ? lock_dir(path)
								       : -1;

		if (fd >= 0) {
			files_remove(path);
			close(fd);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

/* Another process may have taken it for one that was left, before it was locked. */
static bool make_locked(struct files_dir *out)
{
	for (int i = 0; i < MAKE_ROUNDS_MAX; i++) {
		snprintf(out->path, PATH_MAX, "%s/" MADE "XXXXXX", parent_dir());
		if (!mkdtemp(out->path))
			return false;
		out->lock = lock_dir(out->path);
		if (out->lock >= 0)
			return true;
	}
	return false;
}

int files_create_dir(const struct bundle *files, const char *specs_dir,
		     struct files_dir *out, struct error *err)
{
	struct spec_walk w = { .left = ENTRIES_MAX };
	char source[PATH_MAX];

	files_remove_left();
	if (!make_locked(out))
		return error_set(err, TIDE_ERULE,
				 "cannot create the directory '%s' for the specs: %s",
				 out->path, strerror(errno));
	if (files_write(files, out->path) &&
	    (!specs_dir || (realpath(specs_dir, source) &&
			    link_others(&w, source, out->path, 0, false))))
		return TIDE_OK;
	error_set(err, TIDE_ERULE, "cannot write the files into '%s': %s", out->path,
		  w.left == 0 ? "the directory of the specs has more than 10000 entries"
			      : strerror(errno));
	files_end_dir(out);
	return TIDE_ERULE;
}

void files_end_dir(struct files_dir *dir)
{
	files_remove(dir->path);
	close(dir->lock);
}

/* The installation, before it counts. */

/* Where the n-th file waits. */
static bool format_place(const char *dir, size_t n, char out[PATH_MAX])
{
	char name[sizeof(FILES_FOLDER) + 24];

	snprintf(name, sizeof(name), FILES_FOLDER "/%zu", n);
	return format_path(dir, name, out);
}

static bool sync_folder(const char *dir, const char *name)
{
	char path[PATH_MAX];
	int fd = format_path(dir, name, path)
			 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
			 : -1;

	if (fd < 0)
		return false;
	bool is_synced = fsync(fd) == 0;
	return close(fd) == 0 && is_synced;
}

/* The list goes first: without it the folder does not count. */
static bool remove_all(const char *dir)
{
	char path[PATH_MAX];

	if (!format_path(dir, LIST, path) || (unlink(path) != 0 && errno != ENOENT))
		return false;
	/* A list that came back must find its files. */
	if (sync_folder(dir, FILES_FOLDER) && format_path(dir, FILES_FOLDER, path))
		files_remove(path);
	return true;
}

/* A rename into it must work. */
static bool prepare_folder(const char *dir, const char *folder)
{
	struct stat here, there;
	char path[PATH_MAX];

	if (!format_path(dir, folder, path) || !files_make_folder(path, 0755) ||
	    stat(dir, &here) != 0 || stat(path, &there) != 0)
		return false;
	errno = EXDEV;
	return here.st_dev == there.st_dev && access(path, W_OK | X_OK) == 0;
}

/* Is it a name that leads nowhere else, and fits into a line? */
static bool is_safe(const char *name)
{
	struct slice rest = slice_from(name);

	if (rest.len == 0 || strchr(name, '\n') || name[rest.len - 1] == '/')
		return false;
	while (rest.len > 0) {
		struct slice segment = slice_cut(&rest, '/');

		if (segment.len == 0 || segment.data[0] == '.')
			return false;
	}
	return true;
}

static bool prepare_file(const char *dir, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	if (!is_safe(name) || !format_path(dir, name, path)) {
		errno = EINVAL;
		return false;
	}
	if (!each_folder(dir, name, prepare_folder))
		return false;
	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return true;
	errno = EISDIR;
	return false;
}

/* Obstacles are found before anything has changed. */
static bool prepare(const char *dir, const struct bundle *files, const char **at)
{
	for (size_t i = 0; i < files->count; i++) {
		*at = files->files[i].path;
		if (!prepare_file(dir, *at))
			return false;
	}
	for (unsigned kind = 0; kind < script_kind_count; kind++) {
		struct rules_dir_list list;
		struct error ignored;
		bool is_fit = true;

		*at = script_kind_name((enum script_kind)kind);
		if (rules_dir_list(&list, dir, (enum script_kind)kind, &ignored) < 0)
			list.count = 0;
		if (list.count > 0)
			is_fit = prepare_folder(dir, *at);
		rules_dir_list_free(&list);
		if (!is_fit)
			return false;
	}
	return true;
}

static bool write_list(const char *dir, const struct bundle *files)
{
	char draft[PATH_MAX], list[PATH_MAX];
	struct buf text = { 0 };

	for (size_t i = 0; i < files->count; i++)
		buf_printf(&text, "%s\n", files->files[i].path);
	bool is_written = format_path(dir, LIST_DRAFT, draft) &&
			  format_path(dir, LIST, list) &&
			  write_file(draft, buf_slice(&text), true) &&
			  sync_folder(dir, FILES_FOLDER) && rename(draft, list) == 0;
	buf_deinit(&text);
	return is_written && sync_folder(dir, FILES_FOLDER) && sync_folder(dir, "");
}

static bool write_beside(const char *dir, const struct bundle *files)
{
	char path[PATH_MAX];

	if (!format_path(dir, FILES_FOLDER, path) || mkdir(path, 0700) != 0)
		return false;
	for (size_t i = 0; i < files->count; i++) {
		const struct bundle_file *f = &files->files[i];

		if (!format_place(dir, i, path) ||
		    !write_file(path, (struct slice){ f->text, f->len }, true))
			return false;
	}
	return write_list(dir, files);
}

/* The installation, from then on: any of this may have been done. */

static bool put_in_place(const char *dir, const struct bundle *names, const char **at)
{
	char place[PATH_MAX], path[PATH_MAX];

	for (size_t i = 0; i < names->count; i++) {
		*at = names->files[i].path;
		if (!format_place(dir, i, place) || !format_path(dir, *at, path) ||
		    !each_folder(dir, *at, make_folder) ||
		    (rename(place, path) != 0 &&
		     (errno != ENOENT || access(path, F_OK) != 0)))
			return false;
	}
	return true;
}

/* A folder that is named like a script is none. */
static bool remove_others(const char *dir, const struct bundle *names,
			  enum script_kind kind, const char **at)
{
	struct rules_dir_list list;
	char path[PATH_MAX], name[PATH_MAX];
	struct error ignored;
	bool is_done = true;

	*at = script_kind_name(kind);
	if (rules_dir_list(&list, dir, kind, &ignored) < 0)
		list.count = 0;
	if (list.count > 0)
		is_done = make_folder(dir, *at);
	for (size_t i = 0; i < list.count && is_done; i++) {
		snprintf(name, sizeof(name), "%s/%s", *at, list.names[i]);
		is_done = bundle_find(names, name) ||
			  (format_path(dir, name, path) &&
			   (unlink(path) == 0 || errno == ENOENT || errno == EISDIR));
	}
	rules_dir_list_free(&list);
	return is_done;
}

static bool sync_all(const char *dir, const struct bundle *names)
{
	const char *last = NULL;

	for (size_t i = 0; i < names->count; i++) {
		const char *name = names->files[i].path;
		size_t len = (size_t)(strrchr(name, '/') ? strrchr(name, '/') - name : 0);

		/* Files are sorted: those of a folder follow each other, mostly. */
		if (last && strncmp(last, name, len + 1) == 0)
			continue;
		last = name;
		if (!each_folder(dir, name, sync_folder))
			return false;
	}
	for (unsigned kind = 0; kind < script_kind_count; kind++)
		if (!sync_folder(dir, script_kind_name((enum script_kind)kind)) &&
		    errno != ENOENT)
			return false;
	return sync_folder(dir, "");
}

/* A link is none: it may lead to a list that is somebody else's. */
static bool has_folder(const char *dir)
{
	char path[PATH_MAX];
	struct stat st;

	if (!format_path(dir, FILES_FOLDER, path) || lstat(path, &st) != 0)
		return false;
	errno = ENOTDIR;
	return S_ISDIR(st.st_mode);
}

/* The names, in the order of the files that wait. NULL: there is no list, or errno says
 * why it cannot be read. */
static struct bundle *read_list(const char *dir)
{
	char path[PATH_MAX];
	FILE *in = has_folder(dir) && format_path(dir, LIST, path) ? fopen(path, "re")
								   : NULL;
	struct bundle *names;
	bool is_read = true;
	char *line = NULL;
	size_t size = 0;
	ssize_t len;

	if (!in)
		return NULL;
	names = bundle_create();
	while (is_read && (len = getline(&line, &size, in)) > 0) {
		line[len - 1] = '\0';
		is_read = is_safe(line);
		bundle_add(names, line, SLICE(""));
	}
	if (!is_read)
		errno = EINVAL;
	is_read = is_read && !ferror(in);
	free(line);
	fclose(in);
	if (is_read)
		return names;
	bundle_unref(names);
	return NULL;
}

int files_finish(const char *dir, struct error *err)
{
	const char *at = LIST;
	struct bundle *names = read_list(dir);
	bool is_done;

	if (!names && (errno == ENOENT || errno == ENOTDIR))
		return TIDE_OK;
	is_done = names && put_in_place(dir, names, &at);
	for (unsigned kind = 0; is_done && kind < script_kind_count; kind++)
		is_done = remove_others(dir, names, (enum script_kind)kind, &at);
	if (is_done) {
		at = "";
		is_done = sync_all(dir, names) && remove_all(dir);
	}
	if (!is_done)
		error_set(err, TIDE_ERULE,
			  "pushed rules are only partly in the rules directory, and "
			  "'%s/%s' cannot be changed: %s; a reload goes on when this is "
			  "repaired",
			  dir, at, files_explain(errno));
	if (names)
		bundle_unref(names);
	return is_done ? TIDE_OK : err->code;
}

int files_install(const char *dir, const struct bundle *files, struct error *err)
{
	char folder[PATH_MAX];
	const char *at = "";
	int error;

	if (files_finish(dir, err) < 0) {
		err->code = TIDE_EDENIED;
		return TIDE_EDENIED;
	}
	if (format_path(dir, FILES_FOLDER, folder))
		files_remove(folder); /* of one that was interrupted */
	if (prepare(dir, files, &at)) {
		at = FILES_FOLDER;
		if (write_beside(dir, files)) {
			if (files_finish(dir, err) == TIDE_OK)
				return TIDE_OK;
			err->code = TIDE_EDENIED;
			return TIDE_EDENIED;
		}
	}
	error = errno;
	remove_all(dir);
	return error_set(err, TIDE_EDENIED,
			 "the rules are active, but '%s/%s' cannot be written: %s; a "
			 "restart loads what the rules directory has",
			 dir, at, files_explain(error));
}
