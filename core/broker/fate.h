/* fate.h: what becomes of a message that consumers were given, or that goes for another
 * reason.
 *
 * A cause is what has happened to the message: a NACK, a timeout, an overflow, … One
 * table (fate.c) says of each cause which word names it, who decides, and what is
 * counted. One function decides about all messages; whoever holds the message carries its
 * fate out: settle.c for an entry of a queue, group_settle.c for a record of a topic,
 * transaction.c for a message that a commit settles.
 *
 * A message that fails again and again at once is paced: redelivery.h. */
#pragma once

#include "rules/engine/engine.h"
#include "rules/engine/settled.h"
#include "rules/engine/strategy.h"
#include "queue.h"

struct consumer;
struct lease;
struct ruleset;

enum fate_cause {
	FATE_ACKED,
	FATE_NACKED,       /* the retry script decides */
	FATE_NACKED_LATER, /* the client names a delay */
	FATE_NACKED_BURY,  /* the client sets it aside */
	FATE_REJECTED,     /* the client says that it is hopeless */
	FATE_REQUEUED,     /* the client has not begun with it */
	FATE_RETURNED, /* the broker takes it back: neither client nor message fails */
	FATE_TIMED_OUT,
	FATE_GONE, /* the connection of the consumer broke */
	FATE_EXPIRED,
	FATE_OVERFLOWED,      /* the queue is over a limit: it is dropped */
	FATE_OVERFLOWED_DEAD, /* likewise: it is dead-lettered */
	FATE_REMOVED,         /* by its id */
};

/* The fate of one message; nothing has been done yet. */
struct fate {
	enum fate_cause cause;
	enum retry_action action;
	int64_t due_ms;     /* RETRY_AFTER: not before; in the past: at once */
	const char *reason; /* a literal, the word of the cause; NULL: nothing failed */
	const char *rule;   /* what decided it, a script or a limit */
	struct retry_extra *extra; /* a reference; NULL: nothing */
	bool is_failure;           /* the message is charged with it */
	bool is_paced;
};

/* A message as its holder describes it. */
struct fate_subject {
	struct queue *queue; /* or topic */
	uint64_t id;
	const struct msg *msg; /* as scripts see it; NULL: it cannot be read */
	bool is_view;          /* of `msg` nothing can be kept */
	uint32_t failures;     /* before this one */
	uint32_t deliveries;
	struct slice reason_text;
	/* By one clock of the holder's. */
	int64_t now_ms;
	int64_t given_ms; /* its last delivery; now_ms: nobody holds it */
	/* Of a record: its place, and the group. */
	bool has_place;
	struct slice group;
	unsigned partition;
	uint64_t offset;
};
/* Decide the fate of a message. The fate's `extra` is the caller's.
 *
 * @param delay_ms  of FATE_NACKED_LATER */
struct fate fate_decide(const struct fate_subject *m, enum fate_cause cause,
			int64_t delay_ms);

/* Count the cause, for so many messages, when it takes place. */
void fate_count_cause(struct queue *q, enum fate_cause cause, uint64_t count);
/* FATE_ACKED of one, where each instruction counts. */
static inline void fate_count_ack(struct queue *q)
{
	q->counters.acked++;
	q->vhost->broker->counters.acked++;
}
/* Count the fate, when it is carried out. */
void fate_count(struct queue *q, const struct fate *fate);

/* A question to a retry script. */
struct fate_question {
	struct queue *queue;
	struct msg *msg;
	struct failure_view view;
};
/* The decision of the queue's retry script in a ruleset, as a dry run.
 *
 * @param context  NULL: that of a live failure */
TIDE_MUST_USE int fate_ask(const struct ruleset *r, struct decision_context *context,
			   const struct fate_question *f, struct retry_decision *d,
			   struct error *err);

/* Is there a script of settled/ for the queue? */
bool fate_is_asked(const struct queue *q);
static inline bool fate_is_told(const struct queue *q)
{
	return broker_has_hook(q->vhost->broker, SCRIPT_SETTLED) && fate_is_asked(q);
}
/* Tell the scripts of settled/ of the fate, before it is carried out. What they say
 * changes nothing; what they publish, p->copies, is the caller's. A crash before that is
 * durable leaves neither, and the message comes again. A crash after it, and before the
 * settlement is durable, leaves both: the copies come twice.
 * @param l  of whom held it; NULL: nobody */
void fate_tell(const struct fate_subject *m, const struct fate *fate,
	       const struct lease *l, struct settled_pass *p);
