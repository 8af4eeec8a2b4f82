/* shadow_failures.h: what the active rules and those in the shadow decide about the same
 * failures. */
#ifndef TIDE_ROLLOUT_SHADOW_FAILURES_H
#define TIDE_ROLLOUT_SHADOW_FAILURES_H

#include "broker/queue.h"
#include "rules/engine/strategy.h"

#define SHADOW_FAILURE_SAMPLES 20

struct shadow_outcome {
	struct retry_decision decision;
	char *error; /* the script's; NULL: there is a decision */
};

struct shadow_failure {
	struct queue *queue;
	struct msg *msg;
	struct failure_view failure;
	struct shadow_outcome live, shadow;
};

/* A failure on which the two disagree. */
struct shadow_failure_sample {
	struct shadow_failure f; /* its queue may be gone */
	uint64_t queue_serial;
	struct vhost *vhost;
	struct broker *broker;
};

struct shadow_failures {
	uint64_t seen, compared, differing;
	struct shadow_failure_sample samples[SHADOW_FAILURE_SAMPLES]; /* a ring */
	uint64_t sample_count;                                        /* ever */
};

/* The script has failed with `err`; NULL: it has decided. */
void shadow_failures_set(struct shadow_outcome *o, const struct error *err);
/* Both have decided. Takes what the outcomes hold. */
void shadow_failures_add_take(struct shadow_failures *s, struct shadow_failure *f);
void shadow_failures_deinit(struct shadow_failures *s);
/* The member `failures` of an object. */
void shadow_failures_write(const struct shadow_failures *s, struct json *out);

#endif
