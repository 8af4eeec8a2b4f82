/* shadow.h: a second generation that decides on a share of the live publishes,
 * and applies nothing: RULES shadow. And the same for those of the recent past:
 * RULES replay.
 *
 * When there is no shadow, a publish pays for looking at one pointer. */
#ifndef TIDE_BROKER_SHADOW_H
#define TIDE_BROKER_SHADOW_H

#include "broker.h"
#include "reply.h"
#include "verdict.h"

#define SHADOW_SHARE_DEFAULT 0.1
#define SHADOW_SAMPLES 20
/* A shadow that takes so long for a decision, so often, is stopped: it holds up
 * the broker, which has one thread. */
#define SHADOW_SLOW_NS UINT64_C(20000000)
#define SHADOW_SLOW_MAX 5

struct shadow;

/* `share` of the publishes, above 0 and up to 1. TIDE_EEXISTS when there is one
 * already; else as candidate_create. */
TIDE_MUST_USE int shadow_start(struct broker *b, struct slice dir, double share,
			       struct error *err);
/* Harmless when there is none. */
void shadow_drop(struct broker *b);

/* A publish was decided so; `why` is the text of a refusal. */
void shadow_look(struct shadow *s, struct vhost *v, struct msg *m,
		 const struct verdict *live, const struct error *why);

/* The files of the shadow; NULL when there is none. */
struct bundle *shadow_files(const struct broker *b);
/* An object; with `active` false when there is none. */
void shadow_write(const struct broker *b, struct json *out);

/* ---- replay.c --------------------------------------------------------------- */

struct replay;

#define REPLAY_CHANGES_MAX 100            /* that are shown; more are counted */
#define REPLAY_SLICE_NS UINT64_C(5000000) /* of a loop turn */

/* Decide the recent publishes again under a directory, a slice in each turn, and
 * finish `r` with what would change. One at a time: TIDE_EBUSY. */
void replay_start(struct broker *b, struct slice dir, struct reply *r);
/* End one that is under way, if any. */
void replay_cancel(struct broker *b);

#endif
