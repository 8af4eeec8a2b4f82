/* trust.h: who may change a file or directory, as sshd asks it of its own. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* TIDE_EDENIED when others than root, the user of this process and the owner of `like`
 * (a path) may write it: by its owner, or by the bits of its mode. A group counts as
 * others unless it is that of the process. With the sticky bit all may write a
 * directory, since nobody replaces what another has made there. */
TIDE_MUST_USE int trust_check(const char *path, const char *like, struct error *err);

/* Is the path that of the directory, or one below it? Both have no links. */
bool trust_is_within(const char *path, const char *dir);
