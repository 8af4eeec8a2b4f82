#include "retry.h"

#include "base/redelivery.h"
#include "host/log.h"
#include "dead_letter.h"
#include "decide.h"
#include "queue.h"
#include "broker.h"
#include "rules/engine/strategy.h"

/* A message whose retry script failed is kept and tried again after this. */
#define SCRIPT_FAILED_DELAY_MS 5000

static bool is_over_limit(const struct entry *e)
{
	uint32_t limit = entry_queue(e)->config.delivery_limit;

	return limit > 0 && e->failures >= limit;
}

/* Back to the queue, not before `due_ms`: whatever brings it back, one that fails again
 * and again at once is paced. */
static void give_back(struct entry *e, int64_t due_ms)
{
	struct queue *q = entry_queue(e);
	int64_t now_ms = e->shard->env->now_ms;
	int64_t gap_ms = redelivery_gap_ms(e->attempts);
	int64_t paced_ms = e->held_unix_ms + gap_ms;

	if (paced_ms > now_ms + gap_ms)
		paced_ms = now_ms + gap_ms; /* the clock was set back */
	if (paced_ms > now_ms && paced_ms > due_ms) {
		due_ms = paced_ms;
		q->counters.paced++;
		q->vhost->broker->counters.paced++;
	}
	shard_return(e, due_ms);
}

static void apply(struct entry *e, const struct retry_decision *d, const char *reason)
{
	struct queue *q = entry_queue(e);
	const char *rule = strategy_script(q->strategies[RULESET_ACTIVE][SCRIPT_RETRY]);

	switch (d->action) {
	case RETRY_AFTER:
		give_back(e, e->shard->env->now_ms + d->delay_ms);
		return;
	case RETRY_BURY:
		shard_bury(e);
		return;
	case RETRY_DEAD_LETTER:
		dead_letter(e, reason, rule);
		return;
	case RETRY_DROP:
		shard_remove(e, NULL);
		return;
	}
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

static void ask(struct entry *e, const char *reason, struct retry_decision *d)
{
	struct queue *q = entry_queue(e);
	const struct broker *b = q->vhost->broker;
	const struct watcher *w = &b->watcher;
	const struct retry_failure f = { q,
					 e->msg,
					 { reason, e->attempts, e->failures } };
	struct error err;
	int rc = retry_decide(&b->active_rules,
			      w->on_failure ? w->on_failure(w->ctx, &f) : NULL, &f, d,
			      &err);

	if (w->on_failed)
		w->on_failed(w->ctx, &f, d, rc < 0 ? &err : NULL);
	if (rc == TIDE_OK)
		return;
	log_warn("queue '%s': %s; keeping the message, next attempt in 5 s", q->name,
		 err.text);
	*d = (struct retry_decision){ RETRY_AFTER, SCRIPT_FAILED_DELAY_MS };
}

/* To return what has expired would be to expire it again: unless the script
 * buries or drops it, it is dead-lettered, or dropped where there is no target. */
static void expired(struct entry *e)
{
	struct queue *q = entry_queue(e);
	struct retry_decision d;

	q->counters.expired++;
	ask(e, "expired", &d);
	if (d.action == RETRY_AFTER || d.action == RETRY_DEAD_LETTER)
		d.action = q->config.dead_exchange ? RETRY_DEAD_LETTER : RETRY_DROP;
	apply(e, &d, "expired");
}

/* @param reason  NULL: it counts as no failure of the message */
static void count(struct entry *e, const char *reason)
{
	consumer_release(e);
	entry_queue(e)->vhost->broker->counters.failed++;
	if (reason)
		shard_count_failure(e, reason);
}

void retry_failed(struct entry *e, const char *reason)
{
	bool is_expired = strcmp(reason, "expired") == 0;
	struct retry_decision d;

	count(e, is_expired ? NULL : reason);
	if (is_expired) {
		expired(e);
		return;
	}
	if (is_over_limit(e)) {
		dead_letter(e, reason, "delivery-limit");
		return;
	}
	ask(e, reason, &d);
	apply(e, &d, reason);
}

void retry_after(struct entry *e, int64_t delay_ms)
{
	count(e, "nack");
	if (is_over_limit(e))
		dead_letter(e, "nack", "delivery-limit");
	else
		give_back(e, e->shard->env->now_ms + delay_ms);
}

void retry_bury(struct entry *e)
{
	count(e, "nack");
	shard_bury(e);
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

void retry_dead(struct entry *e, const char *reason)
{
	count(e, reason);
	dead_letter(e, reason, "consumer");
}

void retry_unpunished(struct entry *e)
{
	consumer_release(e);
	give_back(e, 0);
}
