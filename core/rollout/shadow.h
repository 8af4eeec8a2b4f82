/* shadow.h: a second generation that decides on a share of the live publishes and
 * failures, and applies nothing: RULES shadow. And the same for those of the recent past:
 * RULES replay.
 *
 * When there is no shadow, a publish pays for looking at one pointer. */
#ifndef TIDE_ROLLOUT_SHADOW_H
#define TIDE_ROLLOUT_SHADOW_H

#include "broker/broker.h"
#include "rules/engine/strategy.h"
#include "session/reply.h"
#include "verdict.h"

#define SHADOW_SHARE_DEFAULT 0.1
#define SHADOW_SAMPLES 20
/* A shadow that takes so long for a decision, so often, is stopped: it holds up
 * the broker, which has one thread. */
#define SHADOW_SLOW_NS UINT64_C(20000000)
#define SHADOW_SLOW_MAX 5

struct decide_spec;
struct decision;
struct shadow;
struct shadow_spec;

/* It decides from now on, or why it does not: TIDE_ERULE; TIDE_ENOTFOUND when it was
 * dropped before; TIDE_ESHUTDOWN. */
typedef void shadow_started_fn(void *ctx, const struct error *result);

/* Load a directory, in steps, and let it decide on `share` of the publishes, above 0
 * and up to 1. TIDE_EEXISTS when there is one already; TIDE_ENOTFOUND. */
TIDE_MUST_USE int shadow_start(struct broker *b, const struct shadow_spec *spec,
			       shadow_started_fn *on_started, void *ctx,
			       struct error *err);
/* Harmless when there is none. */
void shadow_drop(struct broker *b);

/* Is the publish that is decided next one of the share? Then scripts see one moment
 * until shadow_look, which has to follow. */
bool shadow_take_publish(struct shadow *s);

/* A publish that was taken was decided so. */
struct shadow_live {
	const struct decide_spec *spec;
	const struct decision *decision;
	const struct verdict *verdict;
	const struct error *refusal; /* NULL: none */
};
void shadow_look(struct shadow *s, const struct shadow_live *live);

/* A message of the queue has failed: ask the rules in the shadow first, which so see
 * what those in force will see. False when they are not asked; otherwise tell what was
 * decided, `err` when nothing was. */
bool shadow_ask_retry(struct shadow *s, struct queue *q, struct msg *m,
		      const struct failure_view *failure);
void shadow_tell_retry(struct shadow *s, const struct retry_decision *d,
		       const struct error *err);

/* The files of the shadow; NULL when there is none, or it is not loaded. */
struct bundle *shadow_files(const struct broker *b);
/* Where they are from. */
const char *shadow_dir(const struct broker *b);
/* An object; with `active` false when there is none. */
void shadow_write(const struct broker *b, struct json *out);

/* ---- replay.c --------------------------------------------------------------- */

struct replay;

#define REPLAY_CHANGES_MAX 100 /* that are shown; more are counted */
/* Decisions of SHADOW_SLOW_NS or more after which it is given up. */
#define REPLAY_SLOW_MAX 10
#define REPLAY_SLICE_NS UINT64_C(5000000) /* of a loop turn */

/* Decide the recent publishes again under a directory, a slice in each turn, and
 * finish `r` with what would change. One at a time: TIDE_EBUSY. */
void replay_start(struct broker *b, struct slice dir, struct reply *r);
/* End one that is under way, if any. */
void replay_cancel(struct broker *b);

#endif
