#include "delivery.h"

#include "host/log.h"
#include "pause.h"
#include "rules/engine/deliver.h"
#include "settle.h"
#include "shard/shard.h"
#include "consumer.h"
#include "queue.h"

#define FAILED_MS 5000

#define FAILED_LOG_MS 60000

bool delivery_is_asked(const struct queue *q)
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
static int run_scripts(struct consumer *c, struct deliver_pass *p, struct error *err)
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

static int ask_scripts(struct consumer *c, const struct entry *e, struct deliver_pass *p,
		       struct error *err)
{
	*p = (struct deliver_pass){ .msg = e->msg,
				    .attempt = e->failures + 1,
				    .keeps_order = e->shard->order != NULL };
	return run_scripts(c, p, err);
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
static void delay_entry(struct entry *e, int64_t ms)
{
	int64_t due_ms = e->shard->env->now_ms + ms;

	if (!e->shard->order) {
		shard_move(e, ENTRY_DELAYED, due_ms);
		return;
	}
	shard_hold(e, 0);
	shard_return(e, due_ms);
}

/* Does the consumer get the message, which is ready? Otherwise it is refused to it, or
 * has been delayed. @param head  receives a reference: the headers that it gets it with;
 * NULL: its own */
static __attribute__((noinline)) bool ask_about(struct consumer *c, struct entry *e,
						struct msg **head)
{
	struct deliver_pass p;
	struct error err;

	if (ask_scripts(c, e, &p, &err) < 0) {
		log_failure(c->queue, &err);
		delay_entry(e, FAILED_MS);
		return false;
	}
	if (p.verdict == DELIVER_REFUSE)
		refusal_add(c, e);
	else if (p.verdict == DELIVER_LATER)
		delay_entry(e, p.delay_ms);
	*head = p.head;
	return p.verdict == DELIVER_GIVE;
}

bool delivery_ask_record(struct consumer *c, const struct delivery_question *r,
			 struct msg **head, int64_t *delay_ms)
{
	struct deliver_pass p = { .msg = r->msg,
				  .attempt = r->attempt,
				  .has_place = true,
				  .partition = r->partition,
				  .offset = r->offset,
				  .keeps_order = true };
	struct error err;

	*head = NULL;
	if (run_scripts(c, &p, &err) < 0) {
		log_failure(c->queue, &err);
		*delay_ms = FAILED_MS;
		return false;
	}
	*head = p.head;
	*delay_ms = p.delay_ms;
	return p.verdict == DELIVER_GIVE;
}

/* The same for a message that is asked for by its id: what is wrong is told, and nothing
 * changes. */
static int ask_about_one(struct consumer *c, const struct entry *e, struct msg **head,
			 struct error *err)
{
	struct deliver_pass p;
	const char *colon;

	if (ask_scripts(c, e, &p, err) < 0)
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

/* The reasons that hold the deliveries of a queue back, though consumers could take them:
 * a pause, and the rate= of DECLARE.
 *
 * A rate is an interval between deliveries. What a late turn of the event loop missed is
 * made up for, up to OUTFLOW_CREDIT_MS of it. */

#define OUTFLOW_CREDIT_MS 20
#define NS_PER_MS 1000000

/* For a queue that is metered. When a rate is in the way, the queue is looked at again
 * when the next delivery is due. */
static __attribute__((noinline)) bool is_metered_open(struct queue *q)
{
	int64_t now_ns = q->vhost->broker->mono_ms * NS_PER_MS;

	if (pause_is_on(q, QUEUE_OUT))
		return false;
	if (!q->config.rate_ns || q->next_delivery_ns <= now_ns)
		return true;
	queue_wake_by(q, (q->next_delivery_ns + NS_PER_MS - 1) / NS_PER_MS);
	return false;
}

static __attribute__((noinline)) void count_metered(struct queue *q)
{
	int64_t from_ns =
		(q->vhost->broker->mono_ms - OUTFLOW_CREDIT_MS) * (int64_t)NS_PER_MS;

	if (q->next_delivery_ns < from_ns)
		q->next_delivery_ns = from_ns;
	q->next_delivery_ns += q->config.rate_ns;
}

/* The choice of the consumer that gets the next message of a queue. */

#define DELIVER_MAX 4096 /* messages of one queue in a turn */

/* A GET that takes what matches looks at so many bytes of its queue. */
#define MATCH_BYTES ((size_t)8 << 20)

/* A GET whose time is over asks scripts about so many messages, though others wait. */
#define LATE_MAX 64

static void on_ready(struct shard *sh)
{
	struct queue *q = sh->owner;

	q->has_news = true;
	queue_activate(q);
}

static bool on_expired(struct shard *sh, struct entry *e)
{
	const struct queue *q = sh->owner;

	settle_entry(e, FATE_EXPIRED, 0);
	return !pace_is_spent(&q->vhost->broker->pace, false);
}

static void on_entering(const struct entry *e)
{
	refusal_entering(entry_queue(e), e);
}

const struct shard_ops delivery_shard_ops = { on_ready, on_entering, on_expired };

static bool is_open(struct queue *q)
{
	return !q->is_metered || is_metered_open(q);
}

/* The first message that matches, of those that a search looks at. */
static struct entry *next_match(struct queue *q, struct getter *g)
{
	const struct msg_match *match = g->match;
	struct shard_look look = { match, DELIVERY_MATCH_MESSAGES / q->config.shards,
				   MATCH_BYTES / q->config.shards };
	struct entry *first = NULL;

	for (unsigned i = 0; i < q->shard_count && is_open(q); i++) {
		struct entry *e = shard_scan_match(q->shards[i], &look);

		if (e &&
		    (!first || place_is_before(window_place(e), window_place(first))))
			first = e;
	}
	if (msg_match_error(match))
		getter_hurry(g); /* its answer says so */
	return first;
}

/* The next message of a shard; what has expired goes its own way. */
static inline struct entry *next_of(struct queue *q, struct shard *sh, unsigned *budget)
{
	int64_t now_ms = q->vhost->broker->now_ms;
	struct entry *e;

	while ((e = shard_next(sh)) != NULL) {
		if (!e->expires_unix_ms || e->expires_unix_ms > now_ms)
			return e;
		settle_entry(e, FATE_EXPIRED, 0);
		if (*budget == 0 || --*budget == 0)
			return NULL;
		if (pace_is_spent(&q->vhost->broker->pace, false)) {
			*budget = 0;
			return NULL;
		}
	}
	return NULL;
}

/* The next message of all shards, in the order that they would have in one. NULL, too,
 * while the next one of a shard is being read: it may come before those of the others. */
static __attribute__((noinline)) struct entry *next_merged(struct queue *q,
							   unsigned *budget)
{
	struct entry *first = NULL;

	for (unsigned i = 0; i<q->shard_count && * budget> 0; i++)
		next_of(q, q->shards[i], budget);
	for (unsigned i = 0; i<q->shard_count && * budget> 0; i++) {
		struct entry *e = shard_next(q->shards[i]);

		if (!e && shard_count(q->shards[i], ENTRY_READY) > 0)
			return NULL;
		if (e &&
		    (!first || place_is_before(window_place(e), window_place(first))))
			first = e;
	}
	return first;
}

/* The next message of any shard, in turn. Inline: deliveries pay for no call. */
static inline __attribute__((always_inline)) struct entry *next_message(struct queue *q,
									unsigned *budget)
{
	if (!is_open(q))
		return NULL;
	if (q->is_mixed && queue_count_mixed(q) > 0)
		return next_merged(q, budget);
	for (unsigned i = 0; i < q->shard_count; i++) {
		struct entry *e = next_of(q, q->shards[q->next_shard], budget);

		q->next_shard =
			q->next_shard + 1 < q->shard_count ? q->next_shard + 1 : 0;
		if (e || *budget == 0)
			return e;
	}
	return NULL;
}

/* For how long it is given out. What is said of this one message comes before what a
 * consumer says of all that it takes, and that before the queue's. */
static uint32_t choose_lease(const struct consumer *c, const struct entry *e)
{
	return queue_lease(c->queue, e->msg->ack_timeout_ms ? e->msg->ack_timeout_ms
							    : c->ack_timeout_ms);
}

/* The next delivery of a consumer. */
struct handout {
	struct entry *entry; /* NULL: nothing */
	struct msg *head;    /* with these headers: a reference; NULL: its own */
};

static struct entry *next_unasked(struct consumer *c, unsigned *budget)
{
	bool is_unfinished = false;
	struct entry *e;

	if (!c->refusal)
		return c->getter && c->getter->match ? next_match(c->queue, c->getter)
						     : next_message(c->queue, budget);
	e = is_open(c->queue) ? refusal_next(c, &is_unfinished) : NULL;
	if (!e && is_unfinished)
		*budget = 0;
	return e;
}

/* For a GET, or where scripts of deliver/ are asked: the first that they let it have. */
static __attribute__((noinline)) struct handout next_chosen(struct consumer *c,
							    unsigned *budget)
{
	struct pace *pace = &c->queue->vhost->broker->pace;
	/* A GET that ends now has no other turn. */
	unsigned late = 0, lates_max = c->getter && c->getter->is_over ? LATE_MAX : 0;
	struct handout h;

	if (!c->queue->is_offered)
		return (struct handout){ next_unasked(c, budget), NULL };
	while (*budget > 0 && (h.entry = next_unasked(c, budget)) != NULL) {
		if (ask_about(c, h.entry, &h.head))
			return h;
		--*budget;
		if (pace_is_spent(pace, false) && ++late > lates_max)
			*budget = 0;
	}
	return (struct handout){ NULL, NULL };
}

static inline struct handout next_for(struct consumer *c, unsigned *budget)
{
	if (__builtin_expect(c->queue->is_offered || c->getter || c->refusal, 0))
		return next_chosen(c, budget);
	return (struct handout){ next_message(c->queue, budget), NULL };
}

/* Consumer filters (a match, or refusals): the message to deliver may not be the
 * first of the queue. */
static bool has_chosen(const struct consumer *c)
{
	return c->refusal || (c->getter && c->getter->match);
}

/* Apart, so that a delivery that nobody follows ends with the call of its consumer. */
static __attribute__((noinline)) void hand_over_followed(struct consumer *c,
							 struct entry *e,
							 struct msg *head,
							 bool is_redelivered)
{
	c->ops->on_deliver(c, e, head, is_redelivered);
	msg_unref(head);
	STEP_TELL(&c->queue->vhost->broker->followers, STEP_DELIVERED, .id = e->id,
		  .consumer = c, .entry = e);
}

static inline void hand_over(const struct broker *b, struct consumer *c, struct entry *e,
			     struct msg *head, bool is_redelivered)
{
	if (__builtin_expect(head || step_is_followed(&b->followers, STEP_DELIVERED), 0))
		hand_over_followed(c, e, head, is_redelivered);
	else
		c->ops->on_deliver(c, e, NULL, is_redelivered);
}

/* @param head  a reference, or NULL */
static void deliver(struct consumer *c, struct entry *e, struct msg *head)
{
	struct queue *q = c->queue;
	struct broker *b = q->vhost->broker;
	bool is_redelivered = e->deliveries > 0 || shard_is_exposed(e);

	c->delivered++;
	queue_rate(q);
	q->counters.delivered++;
	b->counters.delivered++;
	if (q->is_metered)
		count_metered(q);
	if (is_redelivered)
		q->counters.redelivered++;
	if (c->is_auto_ack) {
		e->shard->served = e->rank;
		hand_over(b, c, e, head, is_redelivered);
		q->counters.acked++;
		b->counters.acked++;
		if (fate_is_told(q))
			settle_delivered(e, &c->lease);
		else
			shard_remove(e, NULL);
		return;
	}
	shard_hold(e, choose_lease(c, e));
	if (c->credit)
		c->credit->used++;
	hand_over(b, c, e, head, is_redelivered);
}

/* Deliver to a consumer out of turn: the next message has the rank of the last one
 * that had its turn. */
static void deliver_chosen(struct consumer *c, const struct handout *h)
{
	struct shard *sh = h->entry->shard;
	double served = sh->served;

	deliver(c, h->entry, h->head);
	sh->served = served;
}

int delivery_take(struct queue *q, struct getter *g, struct entry *e, struct error *err)
{
	struct consumer *c = &g->consumers[0];
	struct shard *sh = e->shard;
	double served = sh->served;
	struct handout h = { .entry = e };

	c->queue = q;
	if (delivery_is_asked(q) && ask_about_one(c, e, &h.head, err) < 0) {
		c->queue = NULL;
		return err->code;
	}
	deliver(c, e, h.head);
	g->count++;
	if (!c->is_auto_ack)
		shard_ledger_found(e);
	/* Deliveries out of turn do not move the round of the shards. */
	sh->served = served;
	c->queue = NULL;
	g->on_answer(g);
	return TIDE_OK;
}

/* Give a GET what its queues have for it, those named first first.
 *
 * @param front  first in the line of its queue, whose next message is `h`; NULL: the time
 *               of the GET is over, and it waits in no line */
static void give_to_get(struct getter *g, const struct consumer *front, struct handout *h,
			unsigned *budget)
{
	for (unsigned i = 0; i < g->consumer_count && g->count < g->max; i++) {
		struct consumer *c = &g->consumers[i];
		struct handout next = { 0 };

		if (c != front && front) {
			/* A consumer of several queues is in line again when a queue
			 * before this one was being read. */
			consumer_update(c);
			if (consumer_next(c->queue) != c)
				continue;
		}
		c->queue->is_offered = delivery_is_asked(c->queue);
		if (c == front) {
			next = *h;
			h->entry = NULL;
		} else {
			next = next_chosen(c, budget);
		}
		while (next.entry) {
			g->bytes += next.entry->msg->payload_len;
			has_chosen(c) ? deliver_chosen(c, &next)
				      : deliver(c, next.entry, next.head);
			if (++g->count == g->max)
				break;
			next = next_chosen(c, budget);
		}
		if (!g->is_hasty && queue_is_refilling(c->queue))
			return;
	}
}

void delivery_answer(struct getter *g)
{
	unsigned budget = DELIVER_MAX;

	g->is_over = true;
	if (!g->broker->is_draining) {
		give_to_get(g, NULL, NULL, &budget);
		if (getter_awaits_read(g))
			return;
	}
	g->on_answer(g);
}

/* The queue has nothing more at present. The answer to a GET may drop what has expired,
 * and so begin another read: then the others wait for that. */
static void end_reads(struct queue *q)
{
	struct getter *g;

	while (!TAILQ_EMPTY(&q->readers) && !queue_is_refilling(q) &&
	       (g = getter_read_ended(q)) != NULL)
		delivery_answer(g);
}

/* The GET that is first in line has a more urgent queue, which is dealt out later in this
 * turn: this one comes after it. Once, since another GET may name them the other way
 * round. */
static bool yields(struct queue *q, const struct consumer *c)
{
	bool has_yielded = q->has_yielded;

	q->has_yielded = !has_yielded && getter_has_active_before(c);
	return q->has_yielded;
}

static void serve_get(struct consumer *c, struct handout *h, unsigned *budget)
{
	struct getter *g = c->getter;

	give_to_get(g, c, h, budget);
	if (h->entry)
		msg_unref(h->head); /* its other queues had enough */
	if (g->count > 0 && !getter_awaits_read(g))
		g->on_answer(g);
	else
		consumer_update(c);
}

bool delivery_turn(struct queue *q)
{
	unsigned budget = DELIVER_MAX;
	struct consumer *c;
	struct handout h;

	if (q->vhost->broker->is_draining)
		return false;
	q->is_offered = delivery_is_asked(q);
	if (q->config.is_single_active)
		consumer_choose_active(q);
	if (!TAILQ_EMPTY(&q->refusals))
		refusal_turn(q);
	if (q->has_news)
		consumer_look_again(q);
	q->has_news = false;
	while (budget > 0 && (c = consumer_next(q)) != NULL) {
		if (c->getter && yields(q, c))
			return true;
		h = next_for(c, &budget);
		if (!h.entry && has_chosen(c) && is_open(q) && budget > 0) {
			consumer_looked(c);
			if (pace_is_spent(&q->vhost->broker->pace, true))
				return true;
			continue;
		}
		if (!h.entry)
			break;
		if (budget > 0)
			budget--;
		if (c->getter) {
			serve_get(c, &h, &budget);
			continue;
		}
		if (q->able.count > 1)
			consumer_pass_turn(c);
		c->refusal ? deliver_chosen(c, &h) : deliver(c, h.entry, h.head);
		if (consumer_is_full(c))
			consumer_update(c);
	}
	if (budget > 0)
		end_reads(q);
	return budget == 0;
}
