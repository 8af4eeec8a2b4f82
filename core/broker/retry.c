#include "retry.h"

#include "base/mem.h"
#include "base/redelivery.h"
#include "host/log.h"
#include "dead_letter.h"
#include "decide.h"
#include "move.h"
#include "queue.h"
#include "settlement.h"
#include "broker.h"
#include "rules/engine/strategy.h"

/* A message whose retry script failed is kept and tried again after this. */
#define SCRIPT_FAILED_DELAY_MS 5000

static bool is_over_limit(const struct entry *e, uint32_t failures)
{
	uint32_t limit = entry_queue(e)->config.delivery_limit;

	return limit > 0 && failures >= limit;
}

/* Back to the queue, not before `due_ms`: one that fails again and again at once is
 * paced, whatever brings it back. */
static struct retry_fate back_at(const struct entry *e, int64_t due_ms, uint32_t failures)
{
	int64_t now_ms = e->shard->env->now_ms;
	int64_t gap_ms = redelivery_gap_ms(failures);
	int64_t paced_ms = e->at_unix_ms + gap_ms;
	struct retry_fate fate = { .action = RETRY_AFTER, .due_ms = due_ms };

	if (paced_ms > now_ms + gap_ms)
		paced_ms = now_ms + gap_ms; /* the clock was set back */
	if (paced_ms > now_ms && paced_ms > due_ms) {
		fate.due_ms = paced_ms;
		fate.is_paced = true;
	}
	return fate;
}

static struct retry_fate dead(const char *rule)
{
	return (struct retry_fate){ .action = RETRY_DEAD_LETTER, .rule = rule };
}

int retry_decide(const struct ruleset *r, struct decision_context *context,
		 const struct retry_failure *f, struct retry_decision *d,
		 struct error *err)
{
	struct strategy *s = f->queue->strategies[r->slot][SCRIPT_RETRY];
	const struct script_question question = { f->msg, context };

	if (!s)
		return error_set(err, TIDE_ERULE, "there is no retry script '%s'",
				 f->queue->config.scripts[SCRIPT_RETRY]);
	return strategy_decide(s, &question, &f->view, d, err);
}

int retry_ask(const struct retry_failure *f, uint64_t id, struct retry_decision *d,
	      struct error *err)
{
	const struct broker *b = f->queue->vhost->broker;
	struct step step = { .kind = STEP_FAIL, .id = id, .failure = f };
	int rc;

	step_tell(&b->followers, &step);
	rc = retry_decide(&b->active_rules, step.context, f, d, err);
	step.kind = STEP_FAILED;
	step.verdict = d;
	step.error = rc < 0 ? err : NULL;
	step_tell(&b->followers, &step);
	return rc;
}

static void ask(const struct entry *e, struct msg *m, const char *reason,
		uint32_t failures, struct retry_decision *d)
{
	struct queue *q = entry_queue(e);
	const struct retry_failure f = { q,
					 m,
					 { .reason = reason,
					   .reason_text = msg_header(m, MSG_REASON_TEXT),
					   .attempts = failures,
					   .deliveries = e->deliveries,
					   .failures = failures } };
	struct error err;

	if (retry_ask(&f, e->id, d, &err) == TIDE_OK)
		return;
	log_warn("queue '%s': %s; keeping the message, next attempt in 5 s", q->name,
		 err.text);
	*d = (struct retry_decision){ .action = RETRY_AFTER,
				      .delay_ms = SCRIPT_FAILED_DELAY_MS };
}

static struct retry_fate by_script(const struct entry *e, struct msg *m,
				   const char *reason, uint32_t failures)
{
	struct strategy *s = entry_queue(e)->strategies[RULESET_ACTIVE][SCRIPT_RETRY];
	struct retry_fate fate = { 0 };
	struct retry_decision d;

	ask(e, m, reason, failures, &d);
	fate.action = d.action;
	if (d.action == RETRY_AFTER)
		fate = back_at(e, e->shard->env->now_ms + d.delay_ms, failures);
	fate.rule = strategy_script(s);
	fate.extra = d.extra;
	return fate;
}

/* To return what has expired would be to expire it again: unless the script
 * buries or drops it, it is dead-lettered, or dropped where there is no target. */
static struct retry_fate expired(const struct entry *e)
{
	struct queue *q = entry_queue(e);
	struct retry_fate fate;

	q->counters.expired++;
	fate = by_script(e, e->msg, "expired", e->failures);
	if (fate.action == RETRY_AFTER || fate.action == RETRY_DEAD_LETTER) {
		fate.action = dead_letter_has_target(q, fate.extra) ? RETRY_DEAD_LETTER
								    : RETRY_DROP;
		fate.is_paced = false;
	}
	fate.reason = "expired";
	return fate;
}

struct retry_fate retry_plan_failed(const struct entry *e, struct msg *m,
				    const char *reason)
{
	uint32_t failures = e->failures + 1;
	struct retry_fate fate = is_over_limit(e, failures)
					 ? dead("delivery-limit")
					 : by_script(e, m, reason, failures);

	fate.reason = reason;
	fate.is_failure = true;
	return fate;
}

struct retry_fate retry_plan_after(const struct entry *e, int64_t delay_ms)
{
	struct retry_fate fate =
		is_over_limit(e, e->failures + 1)
			? dead("delivery-limit")
			: back_at(e, e->shard->env->now_ms + delay_ms, e->failures + 1);

	fate.reason = "nack";
	fate.is_failure = true;
	return fate;
}

struct retry_fate retry_plan_dead(const char *reason)
{
	struct retry_fate fate = dead("consumer");

	fate.reason = reason;
	fate.is_failure = true;
	return fate;
}

struct retry_fate retry_plan_bury(void)
{
	return (struct retry_fate){ .action = RETRY_BURY,
				    .reason = "nack",
				    .is_failure = true };
}

struct retry_fate retry_plan_return(void)
{
	return (struct retry_fate){ .action = RETRY_AFTER };
}

void retry_count(const struct entry *e, const struct retry_fate *fate)
{
	struct queue *q = entry_queue(e);
	struct broker *b = q->vhost->broker;

	b->counters.failed += fate->reason != NULL;
	q->counters.returned += fate->reason == NULL;
	q->counters.paced += fate->is_paced;
	b->counters.paced += fate->is_paced;
}

void retry_tell(const struct entry *e, const struct retry_fate *fate)
{
	STEP_TELL(&entry_queue(e)->vhost->broker->followers, STEP_RETURNED, .id = e->id,
		  .entry = e, .fate = fate);
}

/* The headers that the script wrote are the message's, wherever it goes. */
static void revise(struct entry *e, const struct retry_fate *fate)
{
	struct msg *m = fate->extra ? fate->extra->msg : NULL;

	if (!m || fate->action == RETRY_DROP)
		return;
	if (e->state < SHARD_STAGES)
		shard_set_moving(e);
	shard_revise(e, m, e->rank);
}

/* Nobody holds it. */
static void carry_out(struct entry *e, const struct retry_fate *fate)
{
	const struct dead_letter_facts facts = { fate->reason, fate->rule, e->failures,
						 fate->extra };

	revise(e, fate);
	switch (fate->action) {
	case RETRY_AFTER:
		shard_return(e, fate->due_ms);
		return;
	case RETRY_BURY:
		shard_bury(e);
		return;
	case RETRY_DEAD_LETTER:
		dead_letter(e, &facts);
		return;
	case RETRY_DROP:
		shard_remove(e, NULL);
		return;
	}
}

/* A fate that waits for the copies of its script. */
struct copying {
	struct retry_fate fate;
	char *rule; /* the script's generation may go meanwhile */
};

static void on_refused(void *ctx, int status, const char *text)
{
	const struct copying *c = ctx;

	log_warn("%s: a copy is lost: %s", c->rule, text);
}

static void on_copied(void *ctx, struct entry *e, int status)
{
	struct copying *c = ctx;

	if (e)
		carry_out(e, &c->fate);
	strategy_extra_unref(c->fate.extra);
	mem_free(c->rule);
	mem_free(c);
}

static const struct move_ops copies_ops = { on_refused, on_copied };

/* What the script publishes is durable before the message goes on: a crash may publish it
 * twice, and never loses it. */
static void publish_copies(struct entry *e, const struct retry_fate *fate)
{
	struct copying *c = mem_alloc(sizeof(*c));

	c->fate = *fate;
	c->fate.rule = c->rule = mem_strdup(fate->rule);
	move_copies(e, &c->fate.extra->copies, &copies_ops, c);
}

/* Takes the fate's extra. */
static void finish(struct entry *e, const struct settlement *s)
{
	const struct retry_fate *fate = &s->fate;

	consumer_release(e);
	retry_count(e, fate);
	if (fate->is_failure)
		shard_count_failure(e, fate->reason);
	if (fate->extra && fate->extra->copies.count > 0) {
		publish_copies(e, fate);
		return;
	}
	carry_out(e, fate);
	strategy_extra_unref(fate->extra);
}

static void finish_take(struct entry *e, struct retry_fate fate)
{
	const struct settlement s = { .fate = fate, .finish = finish };

	retry_tell(e, &fate);
	/* Who is given back what it never saw is told nothing. */
	if (fate.reason && settlement_is_told(entry_queue(e)))
		settlement_run(e, &s);
	else
		finish(e, &s);
}

void retry_failed(struct entry *e, const char *reason)
{
	bool is_expired = strcmp(reason, "expired") == 0;

	finish_take(e, is_expired ? expired(e) : retry_plan_failed(e, e->msg, reason));
}

void retry_after(struct entry *e, int64_t delay_ms)
{
	finish_take(e, retry_plan_after(e, delay_ms));
}

void retry_bury(struct entry *e)
{
	finish_take(e, retry_plan_bury());
}

void retry_set_priority(struct entry *e, uint8_t priority)
{
	struct queue *q = entry_queue(e);
	const struct broker *b = q->vhost->broker;
	struct msg like = *e->msg;
	struct msg *m;

	like.priority = priority;
	m = like.priority != e->msg->priority ? msg_create(&like) : msg_ref(e->msg);
	if (!m) {
		log_warn("queue '%s': out of memory for a message of %zu bytes with "
			 "another priority; it keeps its own",
			 q->name, e->msg->bytes);
		return;
	}
	const struct decide_spec spec = { .rules = &b->active_rules, .vhost = q->vhost };
	const struct outcome o = { .msg = m };
	struct pick pick = { .queue = q, .shard = e->shard };

	decide_rank(&spec, &o, &pick);
	shard_revise(e, m, pick.rank);
	msg_unref(m);
}

struct msg *retry_with_reason(const struct entry *e, struct slice text)
{
	struct msg_header headers[MSG_HEADERS_ALL];
	struct msg like = *e->msg;
	struct msg *m;

	text = msg_cut_reason(text);
	if (text.len == 0 || slice_is_equal(msg_header(e->msg, MSG_REASON_TEXT), text))
		return msg_ref(e->msg);
	like.headers = headers;
	like.header_count = (uint8_t)msg_headers_with_reason(e->msg, text, headers);
	m = msg_create(&like);
	if (m)
		return m;
	log_warn("queue '%s': out of memory for a message of %zu bytes with the reason "
		 "of its NACK",
		 entry_queue(e)->name, e->msg->bytes);
	return msg_ref(e->msg);
}

void retry_set_reason(struct entry *e, struct slice text)
{
	struct msg *m = retry_with_reason(e, text);

	if (m != e->msg)
		shard_revise(e, m, e->rank);
	msg_unref(m);
}

void retry_dead(struct entry *e, const char *reason)
{
	finish_take(e, retry_plan_dead(reason));
}

void retry_unpunished(struct entry *e)
{
	finish_take(e, retry_plan_return());
}
