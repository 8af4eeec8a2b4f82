/* watcher.h: who looks at decisions: the recent publishes, and candidate rules in the
 * shadow; and who follows single messages.
 *
 * broker->watcher is empty when nobody does. Each hook may be NULL. Who sets one keeps
 * the watcher that was there, passes on to it, and puts it back. A hook changes nothing
 * that the active rules decide by, except what on_publish, on_failure and on_asking
 * return. */
#pragma once

#include <stdint.h>

#include "rules/engine/script_kind.h"

struct auth_login;
struct connect_decision;
struct consumer;
struct decide_spec;
struct decision;
struct decision_context;
struct deliver_pass;
struct entry;
struct error;
struct line_trace;
struct msg;
struct policy_call;
struct queue;
struct record_delivery;
struct record_place;
struct retry_failure;
struct retry_decision;
struct retry_fate;
struct settled_pass;
struct settled_step;
struct vhost;

/* A publish that has been decided. */
struct watched_publish {
	const struct decide_spec *spec;
	const struct decision *decision;
	const struct error *refusal; /* NULL: none */
	uint64_t random_state;       /* of tide.random, before the decision */
};

/* Scripts of deliver/, settled/, declare/ or connect/ are asked: the question, and
 * afterwards the answer, both in the struct of the kind. The others are NULL. */
struct watched_hook {
	enum script_kind kind;
	struct vhost *vhost; /* of the message, in deliver/ and settled/ */
	const struct deliver_pass *deliver;
	const struct settled_pass *settled;
	const struct policy_call *policy;
	const struct auth_login *client;
	const struct connect_decision *admission;
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
	/* Scripts are asked next: under which conditions; NULL: those of a live call. */
	struct decision_context *(*on_asking)(void *ctx, const struct watched_hook *h);
	/* They were. @param err  one has failed; NULL: none */
	void (*on_answered)(void *ctx, const struct watched_hook *h,
			    const struct error *err);
};

static inline struct decision_context *watcher_asking(const struct watcher *w,
						      const struct watched_hook *h)
{
	return w->on_asking ? w->on_asking(w->ctx, h) : NULL;
}

static inline void watcher_answered(const struct watcher *w, const struct watched_hook *h,
				    const struct error *err)
{
	if (w->on_answered)
		w->on_answered(w->ctx, h, err);
}

/* follower: who follows single messages from their publish on: TRACE.
 *
 * broker->follower is NULL when nobody does. Hooks change nothing, but that on_publish
 * may ask `spec` for the steps of the decision. */
struct follower {
	void *ctx;
	/* The retry script is asked about it next: where its lines go; NULL: nowhere. */
	struct line_trace *(*on_failing)(void *ctx, uint64_t id);
	/* It is decided next, then told by on_decided. */
	void (*on_publish)(void *ctx, struct decide_spec *spec);
	void (*on_decided)(void *ctx, const struct watched_publish *p);
	/* Scripts of deliver/ were asked about it: what they say. @param failure  of the
	 * last one; NULL: none */
	void (*on_offered)(void *ctx, const struct queue *q, const struct deliver_pass *p,
			   const struct error *failure);
	/* The consumer was given it. */
	void (*on_delivered)(void *ctx, const struct consumer *c, const struct entry *e);
	/* It is acknowledged: told before it goes. */
	void (*on_acked)(void *ctx, const struct entry *e);
	/* It has failed, has expired, or is given back: what becomes of it now. */
	void (*on_returned)(void *ctx, const struct entry *e,
			    const struct retry_fate *fate);
	/* A script of settled/ was told of it. */
	void (*on_settled)(void *ctx, const struct queue *q, const struct msg *m,
			   const struct settled_step *step);
	/* A copy of it is published as a dead letter. */
	void (*on_dead)(void *ctx, const struct queue *q, uint64_t id,
			const struct msg *copy);
	/* The same of topics. A range of offsets may be long. */
	void (*on_record)(void *ctx, const struct consumer *c,
			  const struct record_delivery *d);
	void (*on_records_acked)(void *ctx, const struct record_place *first,
				 uint64_t count);
	void (*on_record_failed)(void *ctx, const struct record_place *at,
				 const struct retry_fate *fate);
};

struct record_place {
	const struct queue *topic;
	const char *group; /* NULL: a reader, which has none */
	unsigned partition;
	uint64_t offset;
};
