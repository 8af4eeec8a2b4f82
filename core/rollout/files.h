/* files.h: the files of rules on the disk.
 *
 * They are made a directory in which specs run: of the files, and beside them of links to
 * what another directory has that is no script. And the files of promoted rules are
 * installed into the rules directory, all or none: they are written into its folder
 * FILES_FOLDER first, then a list of their names. From the moment that this list is there
 * they count: each file takes its place by a rename, scripts that are not listed are
 * removed, and the folder goes. An installation that was interrupted before is none. One
 * that was interrupted later is finished by files_finish, without which nobody may read
 * the directory. Specs, modules and other files stay.
 *
 * These functions touch the disk and nothing else, so that a thread may call them. Two
 * installations do not exclude each other: the trials do (trials.h). */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "rules/sandbox/bundle.h"

#define FILES_FOLDER ".push" /* no script and no module lies there */

/* Has the directory, or one below it, a *_spec.lua, or is it too large to be sure
 * that there is none? */
bool files_has_specs(const char *dir);

/* A directory that is made for files. A process that is killed leaves it without its
 * lock, and the next one removes it. */
struct files_dir {
	char path[PATH_MAX];
	int lock;
};

/* @param specs_dir  NULL: the files alone */
TIDE_MUST_USE int files_create_dir(const struct bundle *files, const char *specs_dir,
				   struct files_dir *out, struct error *err);
/* Remove it. */
void files_end_dir(struct files_dir *dir);
/* Remove what killed processes have left. */
void files_remove_left(void);

/* Write the files into a directory that is there. False: errno says why not. */
bool files_write(const struct bundle *files, const char *dir);
/* Make a folder that files will be written into, or take the one that is there. False:
 * errno says why not. ELOOP: it is a link, which would lead the files elsewhere. */
bool files_make_folder(const char *path, mode_t mode);
/* The reason in words. */
const char *files_explain(int error);
/* Remove a directory with all that is in it. */
void files_remove(const char *dir);

/* TIDE_EDENIED: the directory cannot be written. Then it is as it was; or the
 * installation has begun, and is to be finished. */
TIDE_MUST_USE int files_install(const char *dir, const struct bundle *files,
				struct error *err);
/* Finish what was interrupted. TIDE_OK also when there is nothing to do; TIDE_ERULE: the
 * directory is half of one, half of the other. */
TIDE_MUST_USE int files_finish(const char *dir, struct error *err);
