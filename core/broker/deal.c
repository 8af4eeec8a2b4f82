#include "deal.h"

#include "offer.h"
#include "outflow.h"
#include "settle.h"
#include "shard/shard.h"
#include "succession.h"

#define DEAL_MAX 4096 /* messages of one queue in a turn */

/* A GET that takes what matches looks at so many messages, and bytes, of its queue. */
#define MATCH_MESSAGES 10000
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

const struct shard_ops deal_shard_ops = { on_ready, on_entering, on_expired };

static bool is_open(struct queue *q)
{
	return !q->is_metered || outflow_is_open(q);
}

/* The first message that matches, of those that a search looks at. */
static struct entry *next_match(struct queue *q, const struct msg_match *match)
{
	struct shard_look look = { match, MATCH_MESSAGES / q->config.shards,
				   MATCH_BYTES / q->config.shards };
	struct entry *first = NULL;

	for (unsigned i = 0; i < q->shard_count && is_open(q); i++) {
		struct entry *e = shard_scan_match(q->shards[i], &look);

		if (e &&
		    (!first || place_is_before(window_place(e), window_place(first))))
			first = e;
	}
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
		return c->getter && c->getter->match
			       ? next_match(c->queue, c->getter->match)
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
		if (offer_ask(c, h.entry, &h.head))
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
		outflow_count(q);
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

int deal_take(struct queue *q, struct getter *g, struct entry *e, struct error *err)
{
	struct consumer *c = &g->consumers[0];
	struct shard *sh = e->shard;
	double served = sh->served;
	struct handout h = { .entry = e };

	c->queue = q;
	if (offer_is_used(q) && offer_ask_one(c, e, &h.head, err) < 0) {
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
		c->queue->is_offered = offer_is_used(c->queue);
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

void deal_answer(struct getter *g)
{
	unsigned budget = DEAL_MAX;

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
		deal_answer(g);
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

bool deal_queue(struct queue *q)
{
	unsigned budget = DEAL_MAX;
	struct consumer *c;
	struct handout h;

	if (q->vhost->broker->is_draining)
		return false;
	q->is_offered = offer_is_used(q);
	if (q->config.is_single_active)
		succession_settle(q);
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
