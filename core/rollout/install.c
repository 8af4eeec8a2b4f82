#include "install.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "rules/engine/rules_dir.h"

struct install {
	struct rollout *rollout; /* NULL: nobody wants to know any more */
	uv_work_t work;
	install_done_fn *on_done;
	void *ctx;
	struct bundle *files; /* the thread only reads it */
	char *dir;
	struct error failure;
};

/* ---- on the thread ---------------------------------------------------------------- */

static int fail(struct install *i, const char *path)
{
	return error_set(&i->failure, TIDE_EDENIED,
			 "the rules are active, but '%s' cannot be written: %s; a "
			 "restart loads what the rules directory has",
			 path, strerror(errno));
}

static bool format_path(const struct install *i, const char *name, char out[PATH_MAX])
{
	if (snprintf(out, PATH_MAX, "%s/%s", i->dir, name) < PATH_MAX)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

/* Where the n-th file waits: no script has such a name. */
static bool format_place(const struct install *i, size_t n, char out[PATH_MAX])
{
	char name[32];

	snprintf(name, sizeof(name), ".push-%zu", n);
	return format_path(i, name, out);
}

static bool write_file(const char *path, const struct bundle_file *f)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	size_t written = 0;

	if (fd < 0)
		return false;
	while (written < f->len) {
		ssize_t n = write(fd, f->text + written, f->len - written);

		if (n < 0)
			break;
		written += (size_t)n;
	}
	bool is_written = written == f->len && fsync(fd) == 0;
	return close(fd) == 0 && is_written;
}

static void make_folders(char *path, size_t from)
{
	for (char *slash = path + from; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0755); /* what is there already is no harm */
		*slash = '/';
	}
}

static void remove_places(const struct install *i, size_t count)
{
	char place[PATH_MAX];

	for (size_t n = 0; n < count; n++)
		if (format_place(i, n, place))
			unlink(place);
}

static int write_beside(struct install *i)
{
	char place[PATH_MAX];

	for (size_t n = 0; n < i->files->count; n++) {
		if (format_place(i, n, place) && write_file(place, &i->files->files[n]))
			continue;
		fail(i, i->dir);
		remove_places(i, n + 1);
		return i->failure.code;
	}
	return TIDE_OK;
}

static int put_in_place(struct install *i)
{
	char place[PATH_MAX], path[PATH_MAX];

	for (size_t n = 0; n < i->files->count; n++) {
		const char *name = i->files->files[n].path;

		if (format_place(i, n, place) && format_path(i, name, path)) {
			make_folders(path, strlen(i->dir) + 1);
			if (rename(place, path) == 0)
				continue;
		}
		fail(i, name);
		remove_places(i, i->files->count);
		return i->failure.code;
	}
	return TIDE_OK;
}

/* Scripts that the files do not have. */
static void remove_others(struct install *i, enum script_kind kind)
{
	struct rules_dir_list list;
	char path[PATH_MAX], name[PATH_MAX];
	struct error ignored;

	if (rules_dir_list(&list, i->dir, kind, &ignored) == TIDE_OK) {
		for (size_t n = 0; n < list.count; n++) {
			snprintf(name, sizeof(name), "%s/%s", script_kind_name(kind),
				 list.names[n]);
			if (!bundle_find(i->files, name) && format_path(i, name, path) &&
			    unlink(path) != 0)
				fail(i, name);
		}
	}
	rules_dir_list_free(&list);
}

static void work_install(uv_work_t *work)
{
	struct install *i = work->data;

	if (write_beside(i) < 0 || put_in_place(i) < 0)
		return;
	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++)
		remove_others(i, (enum script_kind)kind);
}

/* ---- back on the loop ------------------------------------------------------------- */

static void on_worked(uv_work_t *work, int status)
{
	struct install *i = work->data;

	if (i->rollout) {
		i->rollout->install = NULL;
		i->on_done(i->ctx, &i->failure);
	}
	bundle_unref(i->files);
	mem_free(i->dir);
	mem_free(i);
}

int install_start(struct rollout *r, struct bundle *files, install_done_fn *on_done,
		  void *ctx, struct error *err)
{
	struct install *i;

	if (r->install)
		return error_set(err, TIDE_EBUSY,
				 "other rules are being written into the rules "
				 "directory");
	i = mem_zalloc(sizeof(*i));
	i->rollout = r;
	i->work.data = i;
	i->on_done = on_done;
	i->ctx = ctx;
	i->files = bundle_ref(files);
	i->dir = mem_strdup(r->broker->config.rules_dir);
	r->install = i;
	uv_queue_work(r->broker->loop, &i->work, work_install, on_worked);
	return TIDE_OK;
}

void install_cancel(struct rollout *r)
{
	static const struct error stopping = { TIDE_ESHUTDOWN, "the broker is stopping" };
	struct install *i = r->install;

	if (!i)
		return;
	r->install = NULL;
	i->rollout = NULL;
	i->on_done(i->ctx, &stopping);
}
