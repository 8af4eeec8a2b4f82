/* replay.h: the recent publishes, decided again by candidate rules: RULES replay. */
#pragma once

#include "rollout.h"

#define REPLAY_CHANGES_MAX 100 /* that are shown; more are counted */
/* Decisions of SHADOW_SLOW_NS or more after which it is given up. */
#define REPLAY_SLOW_MAX 10
#define REPLAY_SLICE_NS UINT64_C(5000000) /* of a loop turn */

/* The end: a document of what would change, which the callback takes over; or why there
 * is none. From the loop, or from replay_cancel. */
typedef void replay_done_fn(void *ctx, struct buf *document_take,
			    const struct error *failure);

struct replay_spec {
	struct slice dir;
	struct vhost *viewer; /* of who asks */
};

/* Decide the recent publishes again by the rules of a directory, a slice in each turn.
 * One at a time: TIDE_EBUSY. TIDE_ENOTFOUND. */
TIDE_MUST_USE int replay_start(struct rollout *r, const struct replay_spec *what,
			       replay_done_fn *on_done, void *ctx, struct error *err);
/* End one that is under way, if any. */
void replay_cancel(struct rollout *r);
