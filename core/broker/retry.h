/* retry.h: what happens to a message that was not acknowledged.
 *
 * Every way back goes through here: the failure is counted, the delivery limit
 * is applied, the queue's retry script is asked, and what it decides is done. A
 * message that comes back again and again at once is paced: redelivery.h. */
#pragma once

#include "rules/engine/engine.h"
#include "rules/engine/strategy.h"
#include "shard/entry.h"

struct queue;
struct ruleset;

/* `reason` is one of "nack" "timeout" "gone" "expired". */
void retry_failed(struct entry *e, const char *reason);
/* A NACK that says itself when: the script is not asked, the delivery limit
 * holds. */
void retry_after(struct entry *e, int64_t delay_ms);
/* A NACK that sets it aside, whatever the script says. */
void retry_bury(struct entry *e);
/* A NACK that names another priority, before it does one of these: the queue ranks the
 * message anew. */
void retry_set_priority(struct entry *e, uint8_t priority);
/* A NACK that says that it is hopeless. */
void retry_dead(struct entry *e, const char *reason);
/* What a retry script is asked about. */
struct retry_failure {
	struct queue *queue;
	struct msg *msg;
	struct failure_view view;
};
/* What the queue's retry script in a ruleset decides; nothing is done.
 * @param context  NULL: that of a live failure */
TIDE_MUST_USE int retry_decide(const struct ruleset *r, struct decision_context *context,
			       const struct retry_failure *f, struct retry_decision *d,
			       struct error *err);

/* Returned unpunished: its consumer went away while at work on another. */
void retry_unpunished(struct entry *e);
