/* install.h: the files of promoted rules go into the rules directory, all or none.
 *
 * They are written into its folder INSTALL_FOLDER first, then a list of their names. From
 * the moment that this list is there they count: each file takes its place by a rename,
 * scripts that are not listed are removed, and the folder goes. An installation that was
 * interrupted before is none. One that was interrupted later is finished by
 * install_finish, without which nobody may read the directory. Specs, modules and other
 * files stay.
 *
 * These functions touch the disk and nothing else, so that a thread may call them. They
 * do not exclude each other: the trials do (trials.h). */
#pragma once

#include "base/error.h"
#include "rules/sandbox/bundle.h"

#define INSTALL_FOLDER ".push" /* no script and no module lies there */

/* TIDE_EDENIED: it cannot be written. Then the directory is as it was; or the
 * installation has begun, and is to be finished. */
TIDE_MUST_USE int install_files(const char *dir, const struct bundle *files,
				struct error *err);
/* Finish what was interrupted. TIDE_OK also when there is nothing to do; TIDE_ERULE: the
 * directory is half of one, half of the other. */
TIDE_MUST_USE int install_finish(const char *dir, struct error *err);
