#include "watch.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/log.h"

#define LINKS_MAX 40     /* on one path, as the kernel has it */
#define FOLDERS_MAX 1024 /* watches in all: inotify's are limited per user */
/* Names that are looked at in all folders together. */
#define ENTRIES_MAX 10000
/* The look is taken on the loop: so many names and folders in a turn. */
#define STEPS_PER_TURN 64

/* A directory in which something changes all the time is looked at too. */
#define DEBOUNCES_MAX 10

/* One watched directory; freed by its close callback. */
struct folder {
	TAILQ_ENTRY(folder) link;
	uv_fs_event_t event;
	struct watch *watch;
	char *path;   /* without links */
	char **names; /* in it, that count: its own too; of none all do */
	size_t name_count;
};

TAILQ_HEAD(folder_list, folder);

/* A folder to look into, or a link that may lead to one. */
struct visit {
	TAILQ_ENTRY(visit) link;
	char *path; /* absolute; up to the last name without links */
	int depth;
	bool is_link;
	bool is_own; /* no link has led here */
};

struct watch {
	uv_loop_t *loop;
	struct watch_config config;
	uv_timer_t rest;
	uint64_t since_ms; /* the first event that the rest has been put off for */
	struct folder_list folders;
	/* A look at all that is there is under way, in many turns. The watches of the
	 * one before stay until its end, so that no event is missed. */
	uv_idle_t turn;
	bool must_tell; /* at the end: something has changed */
	struct folder_list fresh;
	size_t folder_count; /* of these */
	TAILQ_HEAD(visit_list, visit) visits;
	struct visit *visit; /* of which `dir` is open; NULL: none */
	DIR *dir;
	size_t entries_left; /* of ENTRIES_MAX */
	bool is_short;       /* not everything is watched, which has been logged */
	size_t open_handles;
	bool is_closing;
	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

static void on_rest(uv_timer_t *timer);

static bool counts(const struct folder *f, const char *name)
{
	if (f->name_count == 0 || !name)
		return true;
	for (size_t i = 0; i < f->name_count; i++)
		if (strcmp(f->names[i], name) == 0)
			return true;
	/* Events of the directory itself have its own name. */
	return strcmp(strrchr(f->path, '/') + 1, name) == 0;
}

static void on_event(uv_fs_event_t *event, const char *name, int events, int rc)
{
	struct folder *f = event->data;

	if (!f->watch->is_closing && counts(f, name))
		watch_poke(f->watch);
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

static void forget_names(struct folder *f)
{
	for (size_t i = 0; i < f->name_count; i++)
		mem_free(f->names[i]);
	f->name_count = 0;
}

static void free_folder(struct folder *f)
{
	forget_names(f);
	mem_free(f->names);
	mem_free(f->path);
	mem_free(f);
}

static void on_folder_closed(uv_handle_t *handle)
{
	struct folder *f = handle->data;
	struct watch *w = f->watch;

	free_folder(f);
	release(w);
}

static void on_own_closed(uv_handle_t *handle)
{
	release(handle->data);
}

static void forget_folders(struct folder_list *list)
{
	struct folder *f;

	while ((f = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, f, link);
		uv_close((uv_handle_t *)&f->event, on_folder_closed);
	}
}

static struct folder *find_folder(struct watch *w, const char *path)
{
	struct folder *f;

	TAILQ_FOREACH (f, &w->fresh, link)
		if (strcmp(f->path, path) == 0)
			return f;
	return NULL;
}

/* Folders that cannot be watched (no permission, no more watches) are left out, and
 * told of once. */
static void note_short(struct watch *w, const char *path, int rc)
{
	if (w->is_short)
		return;
	w->is_short = true;
	log_warn("rules: cannot watch %s, and perhaps other folders: %s; "
		 "use RULES reload",
		 path,
		 rc == UV_ENOSPC  ? "there are too many folders"
		 : rc == UV_E2BIG ? "there are too many files"
				  : uv_strerror(rc));
}

static int start_folder(struct watch *w, struct folder *f)
{
	int rc = w->folder_count < FOLDERS_MAX ? uv_fs_event_init(w->loop, &f->event)
					       : UV_ENOSPC;

	if (rc != 0) {
		free_folder(f);
		return rc;
	}
	uv_unref((uv_handle_t *)&f->event);
	w->open_handles++;
	rc = uv_fs_event_start(&f->event, on_event, f->path, 0);
	if (rc != 0) {
		uv_close((uv_handle_t *)&f->event, on_folder_closed);
		return rc;
	}
	w->folder_count++;
	TAILQ_INSERT_TAIL(&w->fresh, f, link);
	return 0;
}

static int add_folder(struct watch *w, const char *path, struct folder **out)
{
	struct folder *f = mem_zalloc(sizeof(*f));

	f->watch = w;
	f->event.data = f;
	f->path = mem_strdup(path);
	int rc = start_folder(w, f);
	*out = rc == 0 ? f : NULL;
	if (rc != 0 && rc != UV_ENOENT && rc != UV_ENOTDIR)
		note_short(w, path, rc);
	return rc;
}

/* Watch all that is in a directory. False when this is done already, which ends the
 * way round links that lead to each other. */
static bool add_whole(struct watch *w, const char *path)
{
	struct folder *f = find_folder(w, path);

	if (f && f->name_count == 0)
		return false;
	if (!f)
		return add_folder(w, path, &f) == 0;
	forget_names(f);
	return true;
}

/* Watch a name in a directory, whose path has no links. If the name is replaced, the
 * path that goes through it leads elsewhere. */
static void add_place(struct watch *w, const char *dir, const char *name)
{
	struct folder *f = find_folder(w, dir);

	if (f ? counts(f, name) : add_folder(w, dir, &f) != 0)
		return;
	f->names = mem_realloc(f->names, (f->name_count + 1) * sizeof(*f->names));
	f->names[f->name_count++] = mem_strdup(name);
}

/* A path on the way to where it leads. */
struct way {
	char real[PATH_MAX]; /* so far, without links; "" for the root */
	char rest[PATH_MAX];
	int links;
};

/* Put what the link at `path` says before the rest. */
static bool expand(struct way *way, const char *path)
{
	char text[PATH_MAX], rest[PATH_MAX];
	ssize_t len = readlink(path, text, sizeof(text) - 1);

	if (len <= 0 || ++way->links > LINKS_MAX)
		return false;
	text[len] = '\0';
	strcpy(rest, way->rest);
	if (text[0] == '/')
		way->real[0] = '\0';
	return snprintf(way->rest, sizeof(way->rest), "%s/%s", text, rest) <
	       (int)sizeof(way->rest);
}

/* Go on to the next name of the rest. False when the path does not lead on. */
static bool step(struct watch *w, struct way *way)
{
	char path[PATH_MAX], name[NAME_MAX + 1];
	struct stat st;
	char *start = way->rest + strspn(way->rest, "/");
	size_t len = strcspn(start, "/");

	if (len > NAME_MAX)
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)len, start);
	start += len + strspn(start + len, "/");
	memmove(way->rest, start, strlen(start) + 1);
	if (strcmp(name, "..") == 0 && way->real[0])
		*strrchr(way->real, '/') = '\0';
	if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return true;
	if (snprintf(path, sizeof(path), "%s/%s", way->real, name) >= (int)sizeof(path))
		return false;
	bool is_there = lstat(path, &st) == 0, is_link = is_there && S_ISLNK(st.st_mode);
	if (!is_there || is_link || !way->rest[0])
		add_place(w, way->real[0] ? way->real : "/", name);
	if (is_link)
		return expand(way, path);
	strcpy(way->real, path);
	return is_there;
}

/* Follow the path, in a loop and over LINKS_MAX links at most, as the kernel does. Watch
 * each symbolic link on the way, and the place where the path ends or would continue.
 *
 * @param base  where a relative path starts: absolute, without links
 * @param out   PATH_MAX bytes: the path without links
 * @return      does the path lead somewhere? */
static bool follow(struct watch *w, const char *base, const char *path, char *out)
{
	struct way way = { .links = 0 };
	bool is_from_root = path[0] == '/' || strcmp(base, "/") == 0;

	if (strlen(path) >= sizeof(way.rest) || strlen(base) >= sizeof(way.real))
		return false;
	strcpy(way.rest, path);
	strcpy(way.real, is_from_root ? "" : base);
	while (way.rest[0]) {
		if (!step(w, &way))
			return false;
	}
	strcpy(out, way.real[0] ? way.real : "/");
	return true;
}

static void free_visit(struct visit *v)
{
	mem_free(v->path);
	mem_free(v);
}

/* Folders of the directory come before all that links lead to: those may be without
 * number. */
static void plan(struct watch *w, const char *path, const struct visit *how)
{
	struct visit *v = mem_alloc(sizeof(*v));

	*v = *how;
	v->path = mem_strdup(path);
	if (v->is_own)
		TAILQ_INSERT_HEAD(&w->visits, v, link);
	else
		TAILQ_INSERT_TAIL(&w->visits, v, link);
}

static void add_entry(struct watch *w, const struct visit *v, const char *name)
{
	struct visit next = { .depth = v->depth + 1, .is_own = v->is_own };
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", v->path, name) >= (int)sizeof(path) ||
	    lstat(path, &st) != 0)
		return;
	next.is_link = S_ISLNK(st.st_mode);
	next.is_own &= !next.is_link;
	if (next.is_link || (S_ISDIR(st.st_mode) && v->depth < WATCH_DEPTH_MAX))
		plan(w, path, &next);
}

/* Watch what a link leads to: false when that is no folder to look into. */
static bool follow_link(struct watch *w, struct visit *v)
{
	char real[PATH_MAX];
	struct stat st;

	if (!follow(w, "/", v->path, real) || stat(real, &st) != 0 ||
	    !S_ISDIR(st.st_mode) || v->depth > WATCH_DEPTH_MAX)
		return false;
	mem_free(v->path);
	v->path = mem_strdup(real);
	return true;
}

static void end_visit(struct watch *w)
{
	if (w->dir)
		closedir(w->dir);
	w->dir = NULL;
	free_visit(w->visit);
	w->visit = NULL;
}

/* Watch a folder, and open it if there is more to look at. */
static void begin_visit(struct watch *w, struct visit *v)
{
	w->visit = v;
	TAILQ_REMOVE(&w->visits, v, link);
	if ((!v->is_link || follow_link(w, v)) && add_whole(w, v->path) &&
	    w->entries_left > 0)
		w->dir = opendir(v->path);
	if (!w->dir)
		end_visit(w);
}

static void read_entry(struct watch *w)
{
	struct dirent *entry = readdir(w->dir);

	/* Itself, .git, ...; and what a watch of the folder tells of. */
	if (entry && entry->d_name[0] != '.' && entry->d_type != DT_REG)
		add_entry(w, w->visit, entry->d_name);
	if (entry && --w->entries_left == 0)
		note_short(w, w->visit->path, UV_E2BIG);
	if (!entry || w->entries_left == 0)
		end_visit(w);
}

/* False when nothing is left to look at. */
static bool look(struct watch *w)
{
	if (w->dir)
		read_entry(w);
	else if (!TAILQ_EMPTY(&w->visits))
		begin_visit(w, TAILQ_FIRST(&w->visits));
	else
		return false;
	return true;
}

static void forget_look(struct watch *w)
{
	struct visit *v;

	uv_idle_stop(&w->turn);
	if (w->visit)
		end_visit(w);
	while ((v = TAILQ_FIRST(&w->visits))) {
		TAILQ_REMOVE(&w->visits, v, link);
		free_visit(v);
	}
	forget_folders(&w->fresh);
	w->folder_count = 0;
}

static void end_look(struct watch *w)
{
	uv_idle_stop(&w->turn);
	forget_folders(&w->folders);
	TAILQ_CONCAT(&w->folders, &w->fresh, link);
}

/* The place is watched too, so that a directory that is gone is found again. */
static void add_dir(struct watch *w, const char *path)
{
	char here[PATH_MAX], real[PATH_MAX];

	if (getcwd(here, sizeof(here)) && follow(w, here, path, real))
		plan(w, real, &(struct visit){ .is_own = true });
}

static void begin_look(struct watch *w)
{
	forget_look(w);
	w->entries_left = ENTRIES_MAX;
	for (int i = 0; i < WATCH_DIRS_MAX; i++)
		if (w->config.dirs[i])
			add_dir(w, w->config.dirs[i]);
}

static void on_turn(uv_idle_t *idle)
{
	struct watch *w = idle->data;
	bool must_tell = w->must_tell;

	for (unsigned i = 0; i < STEPS_PER_TURN; i++)
		if (!look(w)) {
			end_look(w);
			w->must_tell = false;
			if (must_tell)
				w->config.on_change(w->config.ctx);
			return;
		}
}

void watch_renew(struct watch *w)
{
	begin_look(w);
	uv_idle_start(&w->turn, on_turn);
}

static void on_rest(uv_timer_t *timer)
{
	struct watch *w = timer->data;

	/* Files that change all the time must not keep a look from its end. */
	if (uv_is_active((uv_handle_t *)&w->turn)) {
		uv_timer_start(timer, on_rest, (uint64_t)w->config.debounce_ms, 0);
		return;
	}
	w->must_tell = true;
	watch_renew(w);
}

int watch_open(struct watch **out, uv_loop_t *loop, const struct watch_config *config)
{
	struct watch *w = mem_zalloc(sizeof(*w));

	w->loop = loop;
	w->config = *config;
	TAILQ_INIT(&w->folders);
	TAILQ_INIT(&w->fresh);
	TAILQ_INIT(&w->visits);
	for (int i = 0; i < WATCH_DIRS_MAX; i++)
		w->config.dirs[i] = config->dirs[i] ? mem_strdup(config->dirs[i]) : NULL;
	uv_timer_init(loop, &w->rest);
	uv_unref((uv_handle_t *)&w->rest);
	uv_idle_init(loop, &w->turn);
	uv_unref((uv_handle_t *)&w->turn);
	w->rest.data = w->turn.data = w;
	w->open_handles = 2;
	*out = w;
	begin_look(w);
	while (look(w))
		;
	end_look(w);
	return config->dirs[0] && TAILQ_EMPTY(&w->folders) ? UV_ENOENT : 0;
}

void watch_close(struct watch *w, void (*on_closed)(void *ctx), void *ctx)
{
	w->is_closing = true;
	w->on_closed = on_closed;
	w->closed_ctx = ctx;
	forget_look(w);
	forget_folders(&w->folders);
	uv_close((uv_handle_t *)&w->turn, on_own_closed);
	uv_close((uv_handle_t *)&w->rest, on_own_closed);
}
