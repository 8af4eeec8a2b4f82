/* watcher.h: who looks at decisions: the recent publishes, and candidate rules in the
 * shadow.
 *
 * broker->watcher is empty when nobody does. Each hook may be NULL. Who sets one keeps
 * the watcher that was there, passes on to it, and puts it back. A hook changes nothing
 * that the active rules decide by, except what on_publish and on_failure return. */
#pragma once

#include <stdint.h>

struct decide_spec;
struct decision;
struct decision_context;
struct error;
struct retry_failure;
struct retry_decision;

/* A publish that has been decided. */
struct watched_publish {
	const struct decide_spec *spec;
	const struct decision *decision;
	const struct error *refusal; /* NULL: none */
	uint64_t random_state;       /* of tide.random, before the decision */
};

struct watcher {
	void *ctx;
	/* A publish is decided next: under which conditions; NULL: those of a live one.
	 */
	struct decision_context *(*on_publish)(void *ctx);
	void (*on_decided)(void *ctx, const struct watched_publish *p);
	/* A failure is decided next: likewise. */
	struct decision_context *(*on_failure)(void *ctx, const struct retry_failure *f);
	/* What was decided about it. @param err  of the script; NULL: it has decided */
	void (*on_failed)(void *ctx, const struct retry_failure *f,
			  const struct retry_decision *d, const struct error *err);
};
