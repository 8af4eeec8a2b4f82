/* shadow.h: candidate rules that decide on a share of the live publishes and failures,
 * and apply nothing: RULES shadow. */
#pragma once

#include "host/machine.h"
#include "rollout.h"

#define SHADOW_SHARE_DEFAULT 0.1
#define SHADOW_SAMPLES 20
/* A shadow that takes so long for a decision, so often, is stopped: it holds up
 * the broker, which has one thread. */
#define SHADOW_SLOW_NS 20000000
#define SHADOW_SLOW_MAX 5

/* Processor time: a busy machine says nothing about the rules. */
static inline int64_t shadow_clock_ns(void)
{
	return machine_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

struct shadow_spec {
	struct slice dir;
	double share;       /* of the publishes, above 0 and up to 1 */
	struct slice apply; /* "key" or "h:<name>": what the rules decide about a share of
			     * such values counts; empty: nothing does */
	uint64_t owner;     /* a session, with which it ends; 0: nobody */
	const char *by;     /* who asks; copied */
};

/* The shadow decides from now on, or why it does not: TIDE_ERULE; TIDE_ENOTFOUND when
 * it was dropped before; TIDE_ESHUTDOWN. */
typedef void shadow_started_fn(void *ctx, const struct error *result);

/* Load a directory, in steps, and let it decide on a share. TIDE_EEXISTS when there is
 * one already: with `apply` the directory that is there may be given again, for that and
 * another share. TIDE_ENOTFOUND. */
TIDE_MUST_USE int shadow_start(struct rollout *r, const struct shadow_spec *spec,
			       shadow_started_fn *on_started, void *ctx,
			       struct error *err);
/* Harmless when there is none. */
void shadow_drop(struct rollout *r);

/* The owner in its spec; 0: there is none. */
uint64_t shadow_owner(const struct rollout *r);

/* The files of the shadow; NULL when there is none, or it is not loaded. */
struct bundle *shadow_files(const struct rollout *r);
/* Where they are from. */
const char *shadow_dir(const struct rollout *r);
/* An object; with `active` false when there is none. */
void shadow_write(const struct rollout *r, const struct vhost *viewer, struct json *out);
