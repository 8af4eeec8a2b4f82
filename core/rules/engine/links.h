/* links.h: where a path leads, and the places on the way that decide it. */
#ifndef TIDE_RULES_ENGINE_LINKS_H
#define TIDE_RULES_ENGINE_LINKS_H

#include <stdbool.h>

/* A name in a directory, whose path has no links. If the name is replaced, the path leads
 * elsewhere. */
typedef void links_place_fn(void *ctx, const char *dir, const char *name);

/* Follow the path, in a loop and over 40 links at most, as the kernel does. `on_place` is
 * called for each symbolic link on the way, and for the place where the path ends or
 * would continue. A relative path starts at `base`, which is absolute and has no links.
 *
 * @param out  PATH_MAX bytes: the path without links
 * @return     does the path lead somewhere? */
bool links_follow(const char *base, const char *path, links_place_fn *on_place, void *ctx,
		  char *out);

#endif
