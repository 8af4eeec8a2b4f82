#include "offer.h"

#include "host/log.h"
#include "rules/engine/deliver.h"

#define FAILED_LOG_MS 60000

bool offer_is_used(const struct queue *q)
{
	const struct broker *b = q->vhost->broker;
	struct engine *tried;

	if (!broker_has_hook(b, SCRIPT_DELIVER))
		return false;
	tried = broker_tried_engine(b);
	return deliver_is_used(b->engine, vhost_slice(q->vhost), queue_slice(q)) ||
	       (tried && deliver_is_used(tried, vhost_slice(q->vhost), queue_slice(q)));
}

/* `p` says of what. */
static int run(struct consumer *c, struct deliver_pass *p, struct error *err)
{
	const struct queue *q = c->queue;
	const struct broker *b = q->vhost->broker;
	struct step step = { .kind = STEP_ASK,
			     .script = SCRIPT_DELIVER,
			     .id = p->msg->id,
			     .vhost = q->vhost,
			     .queue = q,
			     .deliver = p };
	struct consumer_view view;
	int rc;

	c->lease.holder->describe(c->lease.holder, c, &view);
	view.queue = queue_slice(q);
	p->consumer = &view;
	p->now_unix_ms = b->now_ms;
	step_tell(&b->followers, &step);
	p->context = step.context;
	rc = deliver_run(b->engine, p, err);
	step.kind = STEP_ANSWERED;
	step.error = rc < 0 ? err : NULL;
	step_tell(&b->followers, &step);
	p->consumer = NULL;
	return rc;
}

static int ask(struct consumer *c, const struct entry *e, struct deliver_pass *p,
	       struct error *err)
{
	*p = (struct deliver_pass){ .msg = e->msg,
				    .attempt = e->failures + 1,
				    .keeps_order = e->shard->order != NULL };
	return run(c, p, err);
}

static void log_failure(struct queue *q, const struct error *err)
{
	if (log_is_due(&q->offer_logged_ms, q->vhost->broker->now_ms, FAILED_LOG_MS))
		log_warn("%s '%s' of vhost '%s': %s; messages for which a deliver script "
			 "fails are tried again after 5 s",
			 definition_kind(q->definition.table), q->name, q->vhost->name,
			 err->text);
}

/* Others of its group wait for what was delivered before. */
static void delay(struct entry *e, int64_t ms)
{
	int64_t due_ms = e->shard->env->now_ms + ms;

	if (!e->shard->order) {
		shard_move(e, ENTRY_DELAYED, due_ms);
		return;
	}
	shard_hold(e, 0);
	shard_return(e, due_ms);
}

bool offer_ask(struct consumer *c, struct entry *e, struct msg **head)
{
	struct deliver_pass p;
	struct error err;

	if (ask(c, e, &p, &err) < 0) {
		log_failure(c->queue, &err);
		delay(e, OFFER_FAILED_MS);
		return false;
	}
	if (p.verdict == DELIVER_REFUSE)
		refusal_add(c, e);
	else if (p.verdict == DELIVER_LATER)
		delay(e, p.delay_ms);
	*head = p.head;
	return p.verdict == DELIVER_GIVE;
}

bool offer_ask_record(struct consumer *c, const struct offer_record *r, struct msg **head,
		      int64_t *delay_ms)
{
	struct deliver_pass p = { .msg = r->msg,
				  .attempt = r->attempt,
				  .has_place = true,
				  .partition = r->partition,
				  .offset = r->offset,
				  .keeps_order = true };
	struct error err;

	*head = NULL;
	if (run(c, &p, &err) < 0) {
		log_failure(c->queue, &err);
		*delay_ms = OFFER_FAILED_MS;
		return false;
	}
	*head = p.head;
	*delay_ms = p.delay_ms;
	return p.verdict == DELIVER_GIVE;
}

int offer_ask_one(struct consumer *c, const struct entry *e, struct msg **head,
		  struct error *err)
{
	struct deliver_pass p;
	const char *colon;

	if (ask(c, e, &p, err) < 0)
		return err->code;
	*head = p.head;
	colon = p.reason[0] ? ": " : "";
	if (p.verdict == DELIVER_REFUSE)
		return error_set(err, TIDE_EDENIED, "%s refuses it%s%s", p.file, colon,
				 p.reason);
	if (p.verdict == DELIVER_LATER)
		return error_set(err, TIDE_EBUSY, "%s delays it by %lld ms%s%s", p.file,
				 (long long)p.delay_ms, colon, p.reason);
	return TIDE_OK;
}
