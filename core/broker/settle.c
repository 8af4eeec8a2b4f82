#include "settle.h"

#include "base/mem.h"
#include "host/log.h"
#include "broker.h"
#include "dead_letter.h"
#include "decide.h"
#include "move.h"

struct fate_subject settle_subject(const struct entry *e, const struct msg *m)
{
	int64_t now_ms = e->shard->env->now_ms;

	return (struct fate_subject){
		.queue = entry_queue(e),
		.id = e->id,
		.msg = m,
		.failures = e->failures,
		.deliveries = e->deliveries,
		.reason_text = msg_header(m, MSG_REASON_TEXT),
		.now_ms = now_ms,
		.given_ms = e->state == ENTRY_UNACKED ? e->at_unix_ms : now_ms,
	};
}

void settle_trace(const struct entry *e, const struct fate *fate)
{
	const struct followers *f = &entry_queue(e)->vhost->broker->followers;

	if (fate->cause == FATE_ACKED)
		STEP_TELL(f, STEP_ACKED, .id = e->id, .entry = e);
	else if (fate->cause != FATE_REMOVED && fate->cause != FATE_OVERFLOWED_DEAD)
		STEP_TELL(f, STEP_RETURNED, .id = e->id, .entry = e, .fate = fate);
}

/* ---- carry out --------------------------------------------------------------------- */

/* A fate that waits for what scripts publish. */
struct settling {
	struct fate fate;
	char *rule;            /* the script's generation may go meanwhile */
	struct waiter *waiter; /* or NULL */
};

static struct settling *create_settling(const struct fate *fate, struct waiter *w)
{
	struct settling *s = mem_alloc(sizeof(*s));

	*s = (struct settling){ *fate, fate->rule ? mem_strdup(fate->rule) : NULL, w };
	s->fate.rule = s->rule;
	if (w)
		waiter_add(w);
	return s;
}

static void destroy_settling(struct settling *s, int status)
{
	if (s->waiter)
		waiter_done(s->waiter, status, NULL);
	mem_free(s->rule);
	mem_free(s);
}

/* The headers that the script wrote are the message's, wherever it goes. */
static void revise_headers(struct entry *e, const struct fate *fate)
{
	struct msg *m = fate->extra ? fate->extra->msg : NULL;

	if (!m || fate->action == RETRY_DROP)
		return;
	if (e->state < SHARD_STAGES)
		shard_set_moving(e);
	shard_revise(e, m, e->rank);
}

/* Apply a fate to a message that is not held. */
static void carry_out(struct entry *e, const struct fate *fate, struct waiter *w)
{
	const struct dead_letter_facts facts = { fate->reason, fate->rule, e->failures,
						 fate->extra };

	revise_headers(e, fate);
	switch (fate->action) {
	case RETRY_AFTER:
		shard_return(e, fate->due_ms);
		return;
	case RETRY_BURY:
		queue_bury(e);
		return;
	case RETRY_DEAD_LETTER:
		dead_letter(e, &facts);
		return;
	case RETRY_DROP:
		shard_remove(e, w);
		return;
	}
}

static void on_copy_refused(void *ctx, int status, const char *text)
{
	const struct settling *s = ctx;

	log_warn("%s: a copy is lost: %s", s->rule, text);
}

static void on_copied(void *ctx, struct entry *e, int status)
{
	struct settling *s = ctx;

	if (e)
		carry_out(e, &s->fate, NULL);
	strategy_extra_unref(s->fate.extra);
	destroy_settling(s, TIDE_OK);
}

static const struct move_ops copies_ops = { on_copy_refused, on_copied };

/* Takes the fate's extra. What the retry script publishes is durable before the message
 * goes on: a crash may publish it twice, and never loses it. */
static void finish_take(struct entry *e, const struct fate *fate, struct waiter *w)
{
	consumer_release(e);
	fate_count(entry_queue(e), fate);
	if (fate->is_failure)
		shard_count_failure(e, fate->reason);
	if (fate->extra && fate->extra->copies.count > 0) {
		move_copies(e, &fate->extra->copies, &copies_ops,
			    create_settling(fate, NULL));
		return;
	}
	carry_out(e, fate, w);
	strategy_extra_unref(fate->extra);
}

/* ---- tell the scripts of settled/ first -------------------------------------------- */

static void on_told_refused(void *ctx, int status, const char *text)
{
	/* The journal has said what Redis refused. */
}

static void on_told(void *ctx, struct entry *e, int status)
{
	struct settling *s = ctx;
	/* Messages that are not durable at the end come again. */
	bool is_over = status == TIDE_ESHUTDOWN;

	if (e && !is_over)
		finish_take(e, &s->fate, s->waiter);
	else
		strategy_extra_unref(s->fate.extra);
	destroy_settling(s, is_over ? status : TIDE_OK);
}

static const struct move_ops told_ops = { on_told_refused, on_told };

static void tell_and_finish_take(struct entry *e, const struct fate *fate,
				 const struct lease *l, struct waiter *w)
{
	const struct fate_subject subject = settle_subject(e, e->msg);
	struct settled_pass pass;

	fate_tell(&subject, fate, l, &pass);
	consumer_release(e);
	if (pass.copies.count == 0)
		finish_take(e, fate, w);
	else
		move_copies(e, &pass.copies, &told_ops, create_settling(fate, w));
}

static void settle(struct entry *e, enum fate_cause cause, int64_t delay_ms,
		   struct waiter *w)
{
	struct queue *q = entry_queue(e);
	const struct fate_subject subject = settle_subject(e, e->msg);
	struct fate fate;

	fate_count_cause(q, cause, 1);
	fate = fate_decide(&subject, cause, delay_ms);
	settle_trace(e, &fate);
	/* A return of messages that the consumer never saw is not told to scripts. */
	if (cause != FATE_RETURNED && cause != FATE_REQUEUED && fate_is_told(q))
		tell_and_finish_take(e, &fate, e->lease, w);
	else
		finish_take(e, &fate, w);
}

void settle_entry(struct entry *e, enum fate_cause cause, int64_t delay_ms)
{
	settle(e, cause, delay_ms, NULL);
}

void settle_remove(struct entry *e, enum fate_cause cause, struct waiter *w)
{
	settle(e, cause, 0, w);
}

void settle_delivered(struct entry *e, const struct lease *l)
{
	const struct fate fate = { .cause = FATE_ACKED, .action = RETRY_DROP };

	tell_and_finish_take(e, &fate, l, NULL);
}

/* ---- what a NACK says -------------------------------------------------------------- */

void settle_set_priority(struct entry *e, uint8_t priority)
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

struct msg *settle_with_reason(const struct entry *e, struct slice text)
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

void settle_set_reason(struct entry *e, struct slice text)
{
	struct msg *m = settle_with_reason(e, text);

	if (m != e->msg)
		shard_revise(e, m, e->rank);
	msg_unref(m);
}
