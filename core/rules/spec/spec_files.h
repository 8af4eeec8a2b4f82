/* spec_files.h: the specs in a directory and below it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define SPEC_FILES_MAX 900 /* as many as busted takes */

struct spec_files {
	char *paths[SPEC_FILES_MAX]; /* sorted, owned */
	size_t count;
};

/* All *_spec.lua that are in `dir` or in folders below it, 8 levels deep at most, whose
 * names do not begin with '.'. A symbolic link is followed to a file that lies in `dir`,
 * with `follows_links` to any file, and never to a folder. TIDE_ELIMIT: there are too
 * many. */
TIDE_MUST_USE int spec_files_find(const char *dir, bool follows_links,
				  struct spec_files *out, struct error *err);
void spec_files_free(struct spec_files *f);
