/* links.h: where a path leads, and the places on the way that decide it. */
#ifndef TIDE_RULES_ENGINE_LINKS_H
#define TIDE_RULES_ENGINE_LINKS_H

#include <stdbool.h>

/* A name in a directory, whose path has no link in it. When what has this name is
 * replaced the path leads somewhere else. */
typedef void links_place_fn(void *ctx, const char *dir, const char *name);

/* Follow the path, which is relative to `base` unless it is absolute; `base` is
 * absolute itself, and has no link in it. Told of are each symbolic link that is met,
 * and the place where the path ends, or would go on if it were there.
 *
 * @param out  PATH_MAX bytes: the path without links
 * @return     does it lead somewhere? */
bool links_follow(const char *base, const char *path, links_place_fn *on_place, void *ctx,
		  char *out);

#endif
