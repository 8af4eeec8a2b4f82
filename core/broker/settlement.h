/* settlement.h: the scripts of settled/ are told what becomes of a message, before it
 * takes place.
 *
 * What they publish is stored first. Until all of it is durable, the message stays, out
 * of circulation. A crash before that leaves neither; the message comes again. A crash
 * after it, and before the settlement is durable, leaves both: the message comes again,
 * and what the scripts publish comes twice. Nothing that a script does changes the
 * outcome. */
#pragma once

#include "queue.h"
#include "retry.h"
#include "rules/engine/settled.h"

struct settlement {
	struct retry_fate fate; /* what becomes of it; unused when it is acknowledged */
	bool is_ack;
	struct waiter *waiter; /* told when it has taken place; may be NULL */
	/* Carry it out; takes the fate's extra. Nobody holds the message any more. */
	void (*finish)(struct entry *e, const struct settlement *s);
};

bool settlement_is_asked(const struct queue *q);
/* Is there a script for the queue? */
static inline bool settlement_is_told(const struct queue *q)
{
	return broker_has_hook(q->vhost->broker, SCRIPT_SETTLED) &&
	       settlement_is_asked(q);
}

/* Tell the scripts, release the message from who holds it, and carry it out, now or
 * later. */
void settlement_run(struct entry *e, const struct settlement *s);
/* Count it in the statistics. */
static inline void settlement_count_ack(struct queue *q)
{
	q->counters.acked++;
	q->vhost->broker->counters.acked++;
}
/* A client acknowledges it, whoever holds it; `w` is told when Redis has forgotten it. */
void settlement_ack_held(struct entry *e, struct waiter *w);
/* It is acknowledged, and goes. @param l  who had it; NULL: nobody */
void settlement_ack(struct entry *e, const struct lease *l, struct waiter *w);
/* It goes for another reason, a literal. */
void settlement_drop(struct entry *e, const char *reason, struct waiter *w);
/* A message of a topic, which a group settles. */
struct settlement_record {
	const struct msg *msg;
	const struct retry_fate *fate; /* NULL: it is acknowledged */
	const struct lease *lease;
	struct slice group;
	unsigned partition;
	uint64_t offset;
	uint32_t attempts, failures;
	int64_t given_unix_ms;
};
/* Tell the scripts. What they publish is the caller's. */
void settlement_tell_record(struct queue *topic, const struct settlement_record *r,
			    struct settled_pass *p);
/* What they publish is the caller's. For who publishes it by a commit. */
void settlement_tell(const struct entry *e, const struct settlement *s,
		     struct settled_pass *p);
