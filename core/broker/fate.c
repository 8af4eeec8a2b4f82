#include "fate.h"

#include <stddef.h>

#include "base/redelivery.h"
#include "host/log.h"
#include "rules/engine/deliver.h"
#include "broker.h"
#include "canary.h"
#include "dead_letter.h"

/* A message whose retry script failed is kept and tried again after this. */
#define SCRIPT_FAILED_DELAY_MS 5000
/* The log says once in a while that a script of settled/ fails. */
#define LOG_MS 60000

enum decider {
	BY_CAUSE,  /* always alike */
	BY_CLIENT, /* it comes back when the client says; the delivery limit holds */
	BY_SCRIPT, /* the retry script, unless the delivery limit is reached */
};

enum charge {
	CHARGE_ATTEMPT = 1, /* a consumer has worked on it */
	CHARGE_FAILURE = 2, /* the message has failed once more: limit, pace, tries */
	CHARGE_FAILED = 4,  /* it counts in the broker's figure `failed` */
	CHARGE_RETURN = 8,  /* it counts in the queue's figure `returned` */
	FAILURE = CHARGE_ATTEMPT | CHARGE_FAILURE | CHARGE_FAILED,
};

#define COUNTS(counter) offsetof(struct queue_counters, counter)
#define NO_COUNTER SIZE_MAX

/* The one place that says what a cause means: add a row for another one. */
static const struct cause_row {
	const char *reason; /* x-death-reason; of scripts, traces and the kept tries */
	const char *rule;   /* x-death-rule, unless a script or a limit decides */
	enum decider decider;
	enum retry_action action; /* BY_CAUSE */
	unsigned charge;
	size_t counter; /* of the queue */
} causes[] = {
	/* clang-format off */
	[FATE_ACKED]           = { NULL,       NULL,       BY_CAUSE,  RETRY_DROP,        CHARGE_ATTEMPT, COUNTS(acked) },
	[FATE_NACKED]          = { "nack",     NULL,       BY_SCRIPT, RETRY_AFTER,       FAILURE,        COUNTS(nacked) },
	[FATE_NACKED_LATER]    = { "nack",     NULL,       BY_CLIENT, RETRY_AFTER,       FAILURE,        COUNTS(nacked) },
	[FATE_NACKED_BURY]     = { "nack",     NULL,       BY_CAUSE,  RETRY_BURY,        FAILURE,        COUNTS(nacked) },
	[FATE_REJECTED]        = { "rejected", "consumer", BY_CAUSE,  RETRY_DEAD_LETTER, FAILURE,        COUNTS(nacked) },
	[FATE_REQUEUED]        = { NULL,       NULL,       BY_CAUSE,  RETRY_AFTER,       CHARGE_RETURN,  COUNTS(nacked) },
	[FATE_RETURNED]        = { NULL,       NULL,       BY_CAUSE,  RETRY_AFTER,       CHARGE_RETURN,  NO_COUNTER },
	[FATE_TIMED_OUT]       = { "timeout",  NULL,       BY_SCRIPT, RETRY_AFTER,       FAILURE,        COUNTS(timed_out) },
	[FATE_GONE]            = { "gone",     NULL,       BY_SCRIPT, RETRY_AFTER,       FAILURE,        NO_COUNTER },
	[FATE_EXPIRED]         = { "expired",  NULL,       BY_SCRIPT, RETRY_AFTER,       CHARGE_FAILED,  COUNTS(expired) },
	[FATE_OVERFLOWED]      = { "maxlen",   NULL,       BY_CAUSE,  RETRY_DROP,        0,              COUNTS(overflowed) },
	[FATE_OVERFLOWED_DEAD] = { "maxlen",   "overflow", BY_CAUSE,  RETRY_DEAD_LETTER, 0,              COUNTS(overflowed) },
	[FATE_REMOVED]         = { "removed",  NULL,       BY_CAUSE,  RETRY_DROP,        0,              COUNTS(removed) },
	/* clang-format on */
};

/* ---- decide ------------------------------------------------------------------------ */

/* Back, not before `delay_ms` have passed, nor sooner than its pace allows. */
static void come_back(const struct fate_subject *m, int64_t delay_ms, uint32_t failures,
		      struct fate *fate)
{
	int64_t gap_ms = redelivery_gap_ms(failures);
	int64_t paced_ms = m->given_ms + gap_ms;

	fate->action = RETRY_AFTER;
	fate->due_ms = m->now_ms + delay_ms;
	if (paced_ms > m->now_ms + gap_ms)
		paced_ms = m->now_ms + gap_ms; /* the clock was set back */
	if (paced_ms > m->now_ms && paced_ms > fate->due_ms) {
		fate->due_ms = paced_ms;
		fate->is_paced = true;
	}
}

int fate_ask(const struct ruleset *r, struct decision_context *context,
	     const struct fate_question *f, struct retry_decision *d, struct error *err)
{
	struct strategy *s = f->queue->strategies[r->slot][SCRIPT_RETRY];
	const struct script_question question = { f->msg, context };

	if (!s)
		return error_set(err, TIDE_ERULE, "there is no retry script '%s'",
				 f->queue->config.scripts[SCRIPT_RETRY]);
	return strategy_decide(s, &question, &f->view, d, err);
}

/* The canary's script for a message that it decides, unless that fails; else the active
 * one. */
static int ask_by_key(struct decision_context *context, const struct fate_question *f,
		      struct retry_decision *d, struct error *err)
{
	const struct broker *b = f->queue->vhost->broker;
	struct canary *c = b->canary;

	if (c && canary_takes(c, f->msg)) {
		if (fate_ask(c->rules, context ? context : &c->context, f, d, err) ==
		    TIDE_OK)
			return TIDE_OK;
		canary_fall_back(c, NULL, err);
	}
	return fate_ask(&b->active_rules, context, f, d, err);
}

/* The script that decides, with those who look at what it decides. */
static int ask_watched(const struct fate_question *f, uint64_t id,
		       struct retry_decision *d, struct error *err)
{
	const struct broker *b = f->queue->vhost->broker;
	struct step step = { .kind = STEP_FAIL, .id = id, .failure = f };
	int rc;

	step_tell(&b->followers, &step);
	rc = ask_by_key(step.context, f, d, err);
	step.kind = STEP_FAILED;
	step.verdict = d;
	step.error = rc < 0 ? err : NULL;
	step_tell(&b->followers, &step);
	return rc;
}

static void decide_by_script(const struct fate_subject *m, uint32_t failures,
			     struct fate *fate)
{
	struct queue *q = m->queue;
	/* An observer of decisions may keep the message. */
	struct msg *copy =
		m->is_view && step_is_followed(&q->vhost->broker->followers, STEP_FAILED)
			? msg_create(m->msg)
			: NULL;
	const struct fate_question f = { q,
					 copy ? copy : (struct msg *)m->msg,
					 { .reason = fate->reason,
					   .reason_text = m->reason_text,
					   .attempts = failures,
					   .deliveries = m->deliveries,
					   .failures = failures,
					   .has_place = m->has_place,
					   .partition = m->partition,
					   .offset = m->offset } };
	struct retry_decision d;
	struct error err;

	if (ask_watched(&f, m->id, &d, &err) < 0) {
		log_warn("%s '%s': %s; keeping the message, next attempt in 5 s",
			 q->topic ? "topic" : "queue", q->name, err.text);
		d = (struct retry_decision){ .action = RETRY_AFTER,
					     .delay_ms = SCRIPT_FAILED_DELAY_MS };
	}
	msg_unref(copy);
	fate->action = d.action;
	fate->rule = strategy_script(q->strategies[RULESET_ACTIVE][SCRIPT_RETRY]);
	fate->extra = d.extra;
	if (d.action == RETRY_AFTER)
		come_back(m, d.delay_ms, failures, fate);
}

/* To return what has expired would be to expire it again: unless the script buries or
 * drops it, it is dead-lettered, or dropped where there is no target. */
static void end_expired(const struct fate_subject *m, struct fate *fate)
{
	if (fate->action != RETRY_AFTER && fate->action != RETRY_DEAD_LETTER)
		return;
	fate->action = dead_letter_has_target(m->queue, fate->extra) ? RETRY_DEAD_LETTER
								     : RETRY_DROP;
	fate->is_paced = false;
}

struct fate fate_decide(const struct fate_subject *m, enum fate_cause cause,
			int64_t delay_ms)
{
	const struct cause_row *row = &causes[cause];
	bool is_failure = row->charge & CHARGE_FAILURE;
	uint32_t failures = m->failures + is_failure,
		 limit = m->queue->config.delivery_limit;
	struct fate fate = { .cause = cause,
			     .action = row->action,
			     .reason = row->reason,
			     .rule = row->rule,
			     .is_failure = is_failure };

	if (row->decider == BY_CAUSE)
		return fate;
	if (is_failure && limit > 0 && failures >= limit) {
		fate.action = RETRY_DEAD_LETTER;
		fate.rule = "delivery-limit";
	} else if (row->decider == BY_SCRIPT && m->msg) {
		decide_by_script(m, failures, &fate);
	} else {
		come_back(m, delay_ms, failures, &fate);
	}
	if (cause == FATE_EXPIRED)
		end_expired(m, &fate);
	return fate;
}

/* ---- count ------------------------------------------------------------------------- */

void fate_count_cause(struct queue *q, enum fate_cause cause, uint64_t count)
{
	size_t at = causes[cause].counter;

	if (at != NO_COUNTER)
		*(uint64_t *)((char *)&q->counters + at) += count;
	if (cause == FATE_ACKED)
		q->vhost->broker->counters.acked += count;
}

void fate_count(struct queue *q, const struct fate *fate)
{
	struct broker_counters *all = &q->vhost->broker->counters;
	unsigned charge = causes[fate->cause].charge;

	all->failed += (charge & CHARGE_FAILED) != 0;
	q->counters.returned += (charge & CHARGE_RETURN) != 0;
	q->counters.paced += fate->is_paced;
	all->paced += fate->is_paced;
}

/* ---- tell the scripts of settled/ -------------------------------------------------- */

bool fate_is_asked(const struct queue *q)
{
	const struct broker *b = q->vhost->broker;
	struct engine *tried = broker_tried_engine(b);

	return settled_is_used(b->engine, vhost_slice(q->vhost), queue_slice(q)) ||
	       (tried && settled_is_used(tried, vhost_slice(q->vhost), queue_slice(q)));
}

static enum settled_event event_of(const struct queue *q, const struct fate *fate)
{
	if (fate->cause == FATE_ACKED)
		return SETTLED_ACK;
	switch (fate->action) {
	case RETRY_AFTER:
		return SETTLED_RETRY;
	case RETRY_BURY:
		return SETTLED_BURY;
	case RETRY_DEAD_LETTER:
		return dead_letter_has_target(q, fate->extra) ? SETTLED_DEAD_LETTER
							      : SETTLED_BURY;
	case RETRY_DROP:
		break;
	}
	return fate->cause == FATE_EXPIRED ? SETTLED_EXPIRED : SETTLED_DROP;
}

static int64_t time_between(int64_t from_ms, int64_t to_ms)
{
	return to_ms > from_ms ? to_ms - from_ms : 0;
}

struct telling {
	struct queue *queue;
	const struct msg *msg;
	struct error failure; /* the last one; code 0: none */
};

static void on_step(void *ctx, const struct settled_step *step)
{
	struct telling *t = ctx;
	struct queue *q = t->queue;

	if (step->failure->code < 0) {
		t->failure = *step->failure;
		if (log_is_due(&q->settled_logged_ms, q->vhost->broker->now_ms, LOG_MS))
			log_warn("queue '%s' of vhost '%s': settled: %s", q->name,
				 q->vhost->name, step->failure->text);
	}
	STEP_TELL(&q->vhost->broker->followers, STEP_SETTLED, .id = t->msg->id,
		  .queue = q, .settled_step = step);
}

void fate_tell(const struct fate_subject *m, const struct fate *fate,
	       const struct lease *l, struct settled_pass *p)
{
	struct queue *q = m->queue;
	struct broker *b = q->vhost->broker;
	int64_t ts_ms = m->msg->ts_unix_ms, due_ms = m->msg->due_unix_ms;
	int64_t given_unix_ms = b->now_ms - (m->now_ms - m->given_ms);
	struct outcome_view outcome = {
		.event = event_of(q, fate),
		.reason = fate->reason,
		.rule = fate->rule,
		.vhost = vhost_slice(q->vhost),
		.queue = queue_slice(q),
		.group = m->group,
		.partition = m->partition,
		.offset = m->offset,
		.attempts = m->failures +
			    ((causes[fate->cause].charge & CHARGE_ATTEMPT) != 0),
		.failures = m->failures + fate->is_failure,
		.waited_ms = time_between(due_ms > ts_ms ? due_ms : ts_ms, given_unix_ms),
		.took_ms = time_between(given_unix_ms, b->now_ms),
	};
	struct telling telling = { q, m->msg, { .code = TIDE_OK } };
	struct step step = { .kind = STEP_ASK,
			     .script = SCRIPT_SETTLED,
			     .vhost = q->vhost,
			     .settled = p };
	struct consumer_view consumer;

	if (l) {
		l->holder->describe(l->holder, l->consumer, &consumer);
		outcome.user = consumer.user;
	}
	p->msg = m->msg;
	p->outcome = &outcome;
	p->now_unix_ms = b->now_ms;
	p->copies.max = DRAFT_COPIES_MAX;
	p->on_step = on_step;
	p->ctx = &telling;
	step_tell(&b->followers, &step);
	p->context = step.context;
	settled_run(b->engine, p);
	step.kind = STEP_ANSWERED;
	step.error = telling.failure.code < 0 ? &telling.failure : NULL;
	step_tell(&b->followers, &step);
}
