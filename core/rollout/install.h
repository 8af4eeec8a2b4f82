/* install.h: the files of pushed rules go into the rules directory: a restart loads them.
 *
 * All are written beside first; then each takes its place by a rename, and scripts that
 * are not among the files are removed. So a failure changes nothing, and only a crash
 * between two renames leaves a mixture. Specs, modules and other files stay. */
#pragma once

#include "rollout.h"
#include "rules/sandbox/bundle.h"

typedef void install_done_fn(void *ctx, const struct error *result);

/* TIDE_EBUSY: another one is under way. on_done comes from the loop. */
TIDE_MUST_USE int install_start(struct rollout *r, struct bundle *files,
				install_done_fn *on_done, void *ctx, struct error *err);
/* Tell that the broker stops; the writing ends by itself. Harmless when there is none. */
void install_cancel(struct rollout *r);
