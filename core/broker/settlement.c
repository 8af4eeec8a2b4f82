#include "settlement.h"

#include "base/mem.h"
#include "host/log.h"
#include "rules/engine/deliver.h"
#include "dead_letter.h"
#include "move.h"

#define LOG_MS 60000

bool settlement_is_asked(const struct queue *q)
{
	const struct broker *b = q->vhost->broker;
	struct engine *tried = broker_tried_engine(b);

	return settled_is_used(b->engine, vhost_slice(q->vhost), queue_slice(q)) ||
	       (tried && settled_is_used(tried, vhost_slice(q->vhost), queue_slice(q)));
}

/* Once in a while. */
static void log_failure(struct queue *q, const char *text)
{
	if (log_is_due(&q->settled_logged_ms, q->vhost->broker->now_ms, LOG_MS))
		log_warn("queue '%s' of vhost '%s': settled: %s", q->name, q->vhost->name,
			 text);
}

/* @param fate  NULL: it is acknowledged */
static enum settled_event event_of(const struct queue *q, const struct retry_fate *fate)
{
	if (!fate)
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
	return strcmp(fate->reason, "expired") == 0 ? SETTLED_EXPIRED : SETTLED_DROP;
}

static int64_t time_between(int64_t from_ms, int64_t to_ms)
{
	return to_ms > from_ms ? to_ms - from_ms : 0;
}

/* What the scripts see of it. */
static void view(const struct entry *e, const struct settlement *s,
		 struct outcome_view *out)
{
	const struct queue *q = entry_queue(e);
	const struct msg *m = e->msg;
	int64_t now_ms = q->vhost->broker->now_ms;
	int64_t came_ms = m->due_unix_ms > m->ts_unix_ms ? m->due_unix_ms : m->ts_unix_ms;
	bool is_held = e->state == ENTRY_UNACKED;
	int64_t given_ms = is_held ? e->at_unix_ms : now_ms;

	*out = (struct outcome_view){
		.event = event_of(q, s->is_ack ? NULL : &s->fate),
		.reason = s->fate.reason,
		.rule = s->fate.rule,
		.vhost = vhost_slice(q->vhost),
		.queue = queue_slice(q),
		.attempts = e->failures + (s->is_ack || s->fate.is_failure),
		.failures = e->failures + s->fate.is_failure,
		.waited_ms = time_between(came_ms, given_ms),
		.took_ms = time_between(given_ms, now_ms),
	};
}

struct telling {
	struct queue *queue;
	const struct msg *msg;
	struct error failure; /* the last one; code 0: none */
};

static void on_step(void *ctx, const struct settled_step *step)
{
	struct telling *t = ctx;
	if (step->failure->code < 0) {
		t->failure = *step->failure;
		log_failure(t->queue, step->failure->text);
	}
	STEP_TELL(&t->queue->vhost->broker->followers, STEP_SETTLED, .id = t->msg->id,
		  .queue = t->queue, .settled_step = step);
}

static void tell(struct queue *q, const struct msg *m, struct outcome_view *outcome,
		 struct settled_pass *p)
{
	struct telling telling = { q, m, { .code = TIDE_OK } };
	const struct broker *b = q->vhost->broker;
	struct step step = { .kind = STEP_ASK,
			     .script = SCRIPT_SETTLED,
			     .vhost = q->vhost,
			     .settled = p };

	p->msg = m;
	p->outcome = outcome;
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

/* Whose the message is, as far as it is known. */
static void add_consumer(const struct lease *l, struct outcome_view *out)
{
	struct consumer_view consumer;

	if (!l)
		return;
	l->holder->describe(l->holder, l->consumer, &consumer);
	out->user = consumer.user;
}

void settlement_tell(const struct entry *e, const struct settlement *s,
		     struct settled_pass *p)
{
	struct outcome_view outcome;

	view(e, s, &outcome);
	add_consumer(e->lease, &outcome);
	tell(entry_queue(e), e->msg, &outcome, p);
}

void settlement_tell_record(struct queue *topic, const struct settlement_record *r,
			    struct settled_pass *p)
{
	struct outcome_view outcome = {
		.event = event_of(topic, r->fate),
		.reason = r->fate ? r->fate->reason : NULL,
		.rule = r->fate ? r->fate->rule : NULL,
		.vhost = vhost_slice(topic->vhost),
		.queue = queue_slice(topic),
		.group = r->group,
		.partition = r->partition,
		.offset = r->offset,
		.attempts = r->attempts,
		.failures = r->failures,
		.waited_ms = time_between(r->msg->ts_unix_ms, r->given_unix_ms),
		.took_ms = time_between(r->given_unix_ms, topic->vhost->broker->now_ms),
	};

	add_consumer(r->lease, &outcome);
	tell(topic, r->msg, &outcome, p);
}

/* One that waits for its copies. */
struct settling {
	struct settlement settlement;
	char *rule; /* the script's generation may go meanwhile */
};

static void on_refused(void *ctx, int status, const char *text)
{
	/* The journal has said what Redis refused. */
}

static void on_end(void *ctx, struct entry *e, int status)
{
	struct settling *s = ctx;
	const struct settlement *what = &s->settlement;
	/* What is not durable at the end comes again. */
	bool is_over = status == TIDE_ESHUTDOWN;

	if (e && !is_over)
		what->finish(e, what);
	else
		strategy_extra_unref(what->fate.extra);
	if (what->waiter)
		waiter_done(what->waiter, is_over ? status : TIDE_OK, NULL);
	mem_free(s->rule);
	mem_free(s);
}

static const struct move_ops move_ops = { on_refused, on_end };

static void carry_out(struct entry *e, const struct settlement *what,
		      struct draft_copies *copies)
{
	struct settling *s;

	consumer_release(e);
	if (copies->count == 0) {
		what->finish(e, what);
		return;
	}
	s = mem_alloc(sizeof(*s));
	s->settlement = *what;
	s->rule = what->fate.rule ? mem_strdup(what->fate.rule) : NULL;
	s->settlement.fate.rule = s->rule;
	if (what->waiter)
		waiter_add(what->waiter);
	move_copies(e, copies, &move_ops, s);
}

void settlement_run(struct entry *e, const struct settlement *s)
{
	struct settled_pass pass;

	settlement_tell(e, s, &pass);
	carry_out(e, s, &pass.copies);
}

static void remove_entry(struct entry *e, const struct settlement *s)
{
	shard_remove(e, s->waiter);
}

void settlement_ack(struct entry *e, const struct lease *l, struct waiter *w)
{
	const struct settlement s = { .is_ack = true,
				      .waiter = w,
				      .finish = remove_entry };
	struct outcome_view outcome;
	struct settled_pass pass;

	view(e, &s, &outcome);
	add_consumer(l, &outcome);
	tell(entry_queue(e), e->msg, &outcome, &pass);
	carry_out(e, &s, &pass.copies);
}

void settlement_ack_held(struct entry *e, struct waiter *w)
{
	struct queue *q = entry_queue(e);

	settlement_count_ack(q);
	STEP_TELL(&q->vhost->broker->followers, STEP_ACKED, .id = e->id, .entry = e);
	if (settlement_is_told(q)) {
		settlement_ack(e, e->lease, w);
		return;
	}
	consumer_release(e);
	shard_remove(e, w);
}

void settlement_drop(struct entry *e, const char *reason, struct waiter *w)
{
	const struct settlement s = { .fate = { .action = RETRY_DROP, .reason = reason },
				      .waiter = w,
				      .finish = remove_entry };

	settlement_run(e, &s);
}
