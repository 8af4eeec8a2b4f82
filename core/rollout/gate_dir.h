/* gate_dir.h: a directory in which the specs of rules run whose files are in memory:
 * what was kept, or stands in the shadow.
 *
 * It is made of the files, and beside them of links to what a directory has that is no
 * script: the specs, and what they need. These functions touch the disk and nothing
 * else, so that a thread may call them. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "rules/sandbox/bundle.h"

/* Whether there is a *_spec.lua in the directory or below it, or it is too large to be
 * sure that there is none. */
bool gate_dir_has_specs(const char *dir);

/* Make one; `out` receives its path. A system's error is told in `err`.
 *
 * @param specs_dir  NULL: the files alone */
TIDE_MUST_USE int gate_dir_create(const struct bundle *files, const char *specs_dir,
				  char out[PATH_MAX], struct error *err);
/* Write the files into a directory that is there. False: errno says why not. */
bool gate_dir_write(const struct bundle *files, const char *dir);
/* Make a folder that files will be written into, or take the one that is there. False:
 * errno says why not. ELOOP: it is a link, which would lead the files elsewhere. */
bool gate_dir_make(const char *path, mode_t mode);
/* The reason in words. */
const char *gate_dir_explain(int error);
/* Remove it with all that is in it. */
void gate_dir_remove(const char *dir);
