#include "install.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gate_dir.h"
#include "rules/engine/rules_dir.h"

#define LIST INSTALL_FOLDER "/list"
#define LIST_DRAFT LIST ".new"

/* @param name  relative to the directory; "" itself */
static bool format_path(const char *dir, const char *name, char out[PATH_MAX])
{
	if (snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

/* Where the n-th file waits. */
static bool format_place(const char *dir, size_t n, char out[PATH_MAX])
{
	char name[sizeof(INSTALL_FOLDER) + 24];

	snprintf(name, sizeof(name), INSTALL_FOLDER "/%zu", n);
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

/* The list goes first: without it the folder does not count. */
static bool remove_all(const char *dir)
{
	char path[PATH_MAX];

	if (!format_path(dir, LIST, path) || (unlink(path) != 0 && errno != ENOENT))
		return false;
	/* A list that came back must find its files. */
	if (sync_folder(dir, INSTALL_FOLDER) && format_path(dir, INSTALL_FOLDER, path))
		gate_dir_remove(path);
	return true;
}

/* ---- before it counts ------------------------------------------------------------- */

/* A rename into it must work. */
static bool prepare_folder(const char *dir, const char *folder)
{
	struct stat here, there;
	char path[PATH_MAX];

	if (!format_path(dir, folder, path) || !gate_dir_make(path, 0755) ||
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

/* What stands in the way is found before anything has changed. */
static bool prepare(const char *dir, const struct bundle *files, const char **at)
{
	for (size_t i = 0; i < files->count; i++) {
		*at = files->files[i].path;
		if (!prepare_file(dir, *at))
			return false;
	}
	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++) {
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

static bool write_file(const char *path, struct slice text)
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
	bool is_written = text.len == 0 && fsync(fd) == 0;
	return close(fd) == 0 && is_written;
}

static bool write_list(const char *dir, const struct bundle *files)
{
	char draft[PATH_MAX], list[PATH_MAX];
	struct buf text = { 0 };

	for (size_t i = 0; i < files->count; i++)
		buf_printf(&text, "%s\n", files->files[i].path);
	bool is_written = format_path(dir, LIST_DRAFT, draft) &&
			  format_path(dir, LIST, list) &&
			  write_file(draft, buf_slice(&text)) &&
			  sync_folder(dir, INSTALL_FOLDER) && rename(draft, list) == 0;
	buf_deinit(&text);
	return is_written && sync_folder(dir, INSTALL_FOLDER) && sync_folder(dir, "");
}

static bool write_beside(const char *dir, const struct bundle *files)
{
	char path[PATH_MAX];

	if (!format_path(dir, INSTALL_FOLDER, path) || mkdir(path, 0700) != 0)
		return false;
	for (size_t i = 0; i < files->count; i++) {
		const struct bundle_file *f = &files->files[i];

		if (!format_place(dir, i, path) ||
		    !write_file(path, (struct slice){ f->text, f->len }))
			return false;
	}
	return write_list(dir, files);
}

/* ---- from then on: any of this may have been done --------------------------------- */

static bool make_folder(const char *dir, const char *folder)
{
	char path[PATH_MAX];

	return format_path(dir, folder, path) && gate_dir_make(path, 0755);
}

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
	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++)
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

	if (!format_path(dir, INSTALL_FOLDER, path) || lstat(path, &st) != 0)
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

int install_finish(const char *dir, struct error *err)
{
	const char *at = LIST;
	struct bundle *names = read_list(dir);
	bool is_done;

	if (!names && (errno == ENOENT || errno == ENOTDIR))
		return TIDE_OK;
	is_done = names && put_in_place(dir, names, &at);
	for (int kind = 0; is_done && kind < SCRIPT_KIND_COUNT; kind++)
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
			  dir, at, gate_dir_explain(errno));
	if (names)
		bundle_unref(names);
	return is_done ? TIDE_OK : err->code;
}

int install_files(const char *dir, const struct bundle *files, struct error *err)
{
	char folder[PATH_MAX];
	const char *at = "";
	int error;

	if (install_finish(dir, err) < 0) {
		err->code = TIDE_EDENIED;
		return TIDE_EDENIED;
	}
	if (format_path(dir, INSTALL_FOLDER, folder))
		gate_dir_remove(folder); /* of one that was interrupted */
	if (prepare(dir, files, &at)) {
		at = INSTALL_FOLDER;
		if (write_beside(dir, files)) {
			if (install_finish(dir, err) == TIDE_OK)
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
			 dir, at, gate_dir_explain(error));
}
