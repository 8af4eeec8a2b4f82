#include "links.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* on one path, as the kernel has it */

struct links_walk {
	char real[PATH_MAX]; /* so far; "" for the root */
	char rest[PATH_MAX];
	char name[NAME_MAX + 1]; /* the component under way */
	int links;
	links_place_fn *on_place;
	void *ctx;
};

static void tell(const struct links_walk *w)
{
	w->on_place(w->ctx, w->real[0] ? w->real : "/", w->name);
}

/* The next component from the rest; false when it is too long. */
static bool take_name(struct links_walk *w)
{
	char *start = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(start, "/");

	if (len > NAME_MAX)
		return false;
	memcpy(w->name, start, len);
	w->name[len] = '\0';
	start += len;
	start += strspn(start, "/");
	memmove(w->rest, start, strlen(start) + 1);
	return true;
}

static void go_up(struct links_walk *w)
{
	char *slash = strrchr(w->real, '/');

	if (slash)
		*slash = '\0';
}

static bool go_down(struct links_walk *w)
{
	size_t len = strlen(w->real), name_len = strlen(w->name);

	if (len + 1 + name_len >= sizeof(w->real))
		return false;
	w->real[len] = '/';
	memcpy(w->real + len + 1, w->name, name_len + 1);
	return true;
}

/* Put what the link says before the rest. */
static bool expand(struct links_walk *w, const char *path)
{
	char text[PATH_MAX];
	ssize_t len = readlink(path, text, sizeof(text) - 1);
	size_t rest_len = strlen(w->rest);

	if (len <= 0 || ++w->links > LINKS_MAX ||
	    (size_t)len + 1 + rest_len >= sizeof(w->rest))
		return false;
	memmove(w->rest + len + 1, w->rest, rest_len + 1);
	memcpy(w->rest, text, (size_t)len);
	w->rest[len] = '/';
	if (text[0] == '/')
		w->real[0] = '\0';
	return true;
}

/* False when the path does not lead on from here. */
static bool step(struct links_walk *w)
{
	char path[PATH_MAX];
	struct stat st;

	if (!take_name(w))
		return false;
	if (strcmp(w->name, "..") == 0)
		go_up(w);
	if (!w->name[0] || strcmp(w->name, ".") == 0 || strcmp(w->name, "..") == 0)
		return true;
	if (snprintf(path, sizeof(path), "%s/%s", w->real, w->name) >= (int)sizeof(path))
		return false;
	bool is_there = lstat(path, &st) == 0;
	if (!is_there || S_ISLNK(st.st_mode) || !w->rest[0])
		tell(w);
	if (is_there && S_ISLNK(st.st_mode))
		return expand(w, path);
	return is_there && go_down(w);
}

bool links_follow(const char *base, const char *path, links_place_fn *on_place, void *ctx,
		  char *out)
{
	struct links_walk w = { .on_place = on_place, .ctx = ctx };
	bool is_absolute = path[0] == '/';

	if (strlen(path) >= sizeof(w.rest) || strlen(base) >= sizeof(w.real))
		return false;
	strcpy(w.rest, path);
	strcpy(w.real, is_absolute || strcmp(base, "/") == 0 ? "" : base);
	while (w.rest[0]) {
		if (!step(&w))
			return false;
	}
	strcpy(out, w.real[0] ? w.real : "/");
	return true;
}
