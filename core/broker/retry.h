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
/* A NACK that says why, before it does one of these: whoever gets the message next sees
 * the text. */
void retry_set_reason(struct entry *e, struct slice text);
/* The message with that text, for what is carried out later; its own if it has the text,
 * and without memory. A reference. An empty text is that of before. */
struct msg *retry_with_reason(const struct entry *e, struct slice text);
/* A NACK that says that it is hopeless. */
void retry_dead(struct entry *e, const char *reason);

/* What is to become of a message; nothing is done yet. */
struct retry_fate {
	enum retry_action action;
	int64_t due_ms;            /* RETRY_AFTER: not before; in the past: at once */
	const char *reason;        /* a literal; NULL: nothing failed */
	const char *rule;          /* what says so, a script or a limit */
	struct retry_extra *extra; /* a reference; NULL: nothing */
	bool is_failure;           /* it counts as one of the message */
	bool is_paced;
};
/* What retry_failed, retry_after, retry_dead, … would do. The `extra` is the caller's.
 * @param m  the message as the script sees it */
struct retry_fate retry_plan_failed(const struct entry *e, struct msg *m,
				    const char *reason);
struct retry_fate retry_plan_after(const struct entry *e, int64_t delay_ms);
struct retry_fate retry_plan_dead(const char *reason);
struct retry_fate retry_plan_bury(void);
struct retry_fate retry_plan_return(void);
/* Tell who follows the message, before it is carried out. */
void retry_tell(const struct entry *e, const struct retry_fate *fate);
/* Count it in the statistics: who carries it out calls this. */
void retry_count(const struct entry *e, const struct retry_fate *fate);

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

/* The same for a live failure, with those who look at it.
 * @param id  of the message */
TIDE_MUST_USE int retry_ask(const struct retry_failure *f, uint64_t id,
			    struct retry_decision *d, struct error *err);

/* Returned unpunished and unpaced: nobody was at work on it, or is to be blamed. */
void retry_unpunished(struct entry *e);
