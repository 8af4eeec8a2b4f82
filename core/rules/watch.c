#include "watch.h"

#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "../base/mem.h"

#define DEPTH_MAX 4     /* folders in folders that are watched */
#define FOLDERS_MAX 256 /* watches in all: inotify's are limited per user */

/* A directory in which something changes all the time is looked at too. */
#define DEBOUNCES_MAX 10

/* One watched directory; freed by its close callback. */
struct folder {
	TAILQ_ENTRY(folder) link;
	uv_fs_event_t event;
	struct watch *watch;
	char *only; /* of a parent: the one name in it that counts; else NULL */
};

struct watch {
	uv_loop_t *loop;
	struct watch_config config;
	uv_timer_t rest;
	uint64_t since_ms; /* the first event that the rest has been put off for */
	TAILQ_HEAD(folder_list, folder) folders;
	size_t folder_count;
	size_t open_handles;
	bool is_closing;
	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

static void on_rest(uv_timer_t *timer);

static void on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
	struct folder *f = event->data;
	struct watch *w = f->watch;
	if (!w->is_closing && (!f->only || !name || strcmp(f->only, name) == 0))
		watch_poke(w);
}

void watch_poke(struct watch *w)
{
	uint64_t now_ms = uv_now(w->loop);
	uint64_t debounce_ms = (uint64_t)w->config.debounce_ms;
	bool is_resting = uv_is_active((uv_handle_t *)&w->rest);
	if (!is_resting)
		w->since_ms = now_ms;
	/* Starting a timer that runs starts it over: that is the debounce. */
	if (!is_resting || now_ms - w->since_ms < debounce_ms * DEBOUNCES_MAX)
		uv_timer_start(&w->rest, on_rest, debounce_ms, 0);
}

static void release(struct watch *w)
{
	if (--w->open_handles > 0 || !w->is_closing)
		return;
	void (*on_closed)(void *ctx) = w->on_closed;
	void *ctx = w->closed_ctx;
	for (int i = 0; i < WATCH_DIRS_MAX; i++)
		mem_free((char *)w->config.dirs[i]);
	mem_free(w);
	on_closed(ctx);
}

static void on_folder_closed(uv_handle_t *handle)
{
	struct folder *f = handle->data;
	struct watch *w = f->watch;
	mem_free(f->only);
	mem_free(f);
	release(w);
}

static void on_timer_closed(uv_handle_t *handle)
{
	release(handle->data);
}

static void forget_folders(struct watch *w)
{
	struct folder *f;
	while ((f = TAILQ_FIRST(&w->folders))) {
		TAILQ_REMOVE(&w->folders, f, link);
		uv_close((uv_handle_t *)&f->event, on_folder_closed);
	}
	w->folder_count = 0;
}

/* Watch one directory; what cannot be watched (gone, no permission, no more
 * watches) is left out. */
static int add_folder(struct watch *w, const char *path, const char *only)
{
	if (w->folder_count == FOLDERS_MAX)
		return UV_ENOSPC;
	struct folder *f = mem_zalloc(sizeof(*f));
	f->watch = w;
	f->event.data = f;
	f->only = only ? mem_strdup(only) : NULL;
	int status = uv_fs_event_init(w->loop, &f->event);
	if (status != 0) {
		mem_free(f->only);
		mem_free(f);
		return status;
	}
	uv_unref((uv_handle_t *)&f->event);
	w->open_handles++;
	status = uv_fs_event_start(&f->event, on_event, path, 0);
	if (status != 0) {
		uv_close((uv_handle_t *)&f->event, on_folder_closed);
		return status;
	}
	w->folder_count++;
	TAILQ_INSERT_TAIL(&w->folders, f, link);
	return 0;
}

static void add_folders_in(struct watch *w, const char *path, int depth)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	struct stat st;
	char child[PATH_MAX];
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		bool is_hidden = entry->d_name[0] == '.'; /* itself, .git, ... */
		int len = snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
		if (is_hidden || len >= (int)sizeof(child))
			continue;
		if (stat(child, &st) != 0 || !S_ISDIR(st.st_mode))
			continue;
		if (add_folder(w, child, NULL) == 0 && depth < DEPTH_MAX)
			add_folders_in(w, child, depth + 1);
	}
	closedir(dir);
}

static int add_tree(struct watch *w, const char *path)
{
	char parent[PATH_MAX], name[PATH_MAX];
	snprintf(parent, sizeof(parent), "%s", path);
	snprintf(name, sizeof(name), "%s", path);
	int parent_status = add_folder(w, dirname(parent), basename(name));
	int status = add_folder(w, path, NULL);
	if (status == 0)
		add_folders_in(w, path, 1);
	return status == 0 || parent_status == 0 ? 0 : status;
}

static int add_all(struct watch *w)
{
	int status = 0;
	for (int i = 0; i < WATCH_DIRS_MAX && status == 0; i++) {
		if (w->config.dirs[i])
			status = add_tree(w, w->config.dirs[i]);
	}
	return status;
}

static void on_rest(uv_timer_t *timer)
{
	struct watch *w = timer->data;
	forget_folders(w);
	add_all(w);
	w->config.on_change(w->config.ctx);
}

int watch_open(struct watch **out, uv_loop_t *loop, const struct watch_config *config)
{
	struct watch *w = mem_zalloc(sizeof(*w));
	w->loop = loop;
	w->config = *config;
	TAILQ_INIT(&w->folders);
	for (int i = 0; i < WATCH_DIRS_MAX; i++)
		w->config.dirs[i] = config->dirs[i] ? mem_strdup(config->dirs[i]) : NULL;
	uv_timer_init(loop, &w->rest);
	uv_unref((uv_handle_t *)&w->rest);
	w->rest.data = w;
	w->open_handles = 1;
	*out = w;
	return add_all(w);
}

void watch_close(struct watch *w, void (*on_closed)(void *ctx), void *ctx)
{
	w->is_closing = true;
	w->on_closed = on_closed;
	w->closed_ctx = ctx;
	forget_folders(w);
	uv_close((uv_handle_t *)&w->rest, on_timer_closed);
}
