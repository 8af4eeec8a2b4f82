#include "consumer.h"

#include "base/container.h"
#include "getter.h"
#include "queue.h"
#include "refusal.h"

/* But for a credit that it shares. */
static inline __attribute__((always_inline)) bool could_take(struct consumer *c)
{
	if (c->getter)
		return c->queue->topic ? c->is_active
				       : !c->has_looked && getter_can_take(c);
	return c->is_active && !c->has_looked &&
	       (c->is_auto_ack || !(consumer_is_full(c) || c->lease.rest_until_ms)) &&
	       c->ops->can_take(c);
}

static bool can_take(struct consumer *c)
{
	return could_take(c) && !(c->credit && credit_is_full(c->credit));
}

/* To the end of the line of its priority. */
static void take_turn(struct queue *q, struct consumer *c)
{
	heap_set(&q->able, &c->turn, consumer_place(c->priority, ++q->turns));
}

/* The turn of the consumer at its shared credit has come. */
static void admit(struct consumer *c)
{
	take_turn(c->queue, c);
	queue_activate(c->queue);
}

/* A limit that several consumers share: those of a channel with a prefetch.
 *
 * While it is used up, consumers whose queue has something for them, and who lack
 * nothing else, want it. When a part of it comes back, they get a chance one after the
 * other, in the order of their rank, then of their turn: each is able (consumer.h) until
 * its queue has dealt. Who finds no message stays able, and wants nothing any more. So
 * each chance that is in vain was paid for by a message that somebody else took. */

/* A busy queue, or a read of Redis, holds the others up no longer. */
#define CHANCE_MS 1000

void credit_init(struct credit *cr, struct broker *b, uint32_t limit)
{
	*cr = (struct credit){ .broker = b, .limit = limit };
}

static void unlist_credit(struct credit *cr)
{
	if (cr->is_listed)
		TAILQ_REMOVE(&cr->broker->credits, cr, link);
	cr->is_listed = false;
}

void credit_deinit(struct credit *cr)
{
	unlist_credit(cr);
	heap_deinit(&cr->wanting);
}

static bool is_wanted(const struct credit *cr)
{
	return !credit_is_full(cr) && heap_min(&cr->wanting);
}

static void list_credit(struct credit *cr)
{
	if (cr->is_listed || !is_wanted(cr))
		return;
	cr->is_listed = true;
	TAILQ_INSERT_TAIL(&cr->broker->credits, cr, link);
}

/* The consumer, which has a credit, lacks nothing else. */
static void want_credit(struct consumer *c)
{
	struct credit *cr = c->credit;

	if (!heap_has(&c->want))
		heap_set(&cr->wanting, &c->want,
			 consumer_place(-(int32_t)c->rank, ++cr->turns));
	list_credit(cr);
}

/* The consumer lacks something else than credit, or goes. */
static void forget_credit(struct consumer *c)
{
	struct credit *cr = c->credit;

	heap_remove(&cr->wanting, &c->want);
	if (cr->tried == c)
		cr->tried = NULL;
}

/* So many messages of one of its consumers are no longer held. */
static void return_credit(struct credit *cr, uint32_t count)
{
	cr->used -= count;
	list_credit(cr);
}

/* The last one may still find something: its queue deals on, or is read from Redis. */
static bool is_being_tried(const struct credit *cr)
{
	const struct consumer *c = cr->tried;

	return c && consumer_is_able(c) && cr->broker->mono_ms < cr->tried_until_ms &&
	       (c->queue->is_active || queue_is_refilling(c->queue));
}

void credit_change(struct credit *cr, uint32_t limit)
{
	cr->limit = limit;
	list_credit(cr);
}

void consumer_share(struct consumer *c, struct credit *cr)
{
	if (c->credit)
		return;
	c->credit = cr;
	cr->used += (uint32_t)c->lease.count;
	consumer_update(c);
}

static void give_chance(struct credit *cr)
{
	struct heap_node *n = heap_min(&cr->wanting);
	struct consumer *c = container_of(n, struct consumer, want);

	heap_remove(&cr->wanting, n);
	cr->tried = c;
	cr->tried_until_ms = cr->broker->mono_ms + CHANCE_MS;
	admit(c);
}

void credit_turn(struct broker *b)
{
	struct credit *cr, *next;

	for (cr = TAILQ_FIRST(&b->credits); cr; cr = next) {
		next = TAILQ_NEXT(cr, link);
		if (!is_wanted(cr))
			unlist_credit(cr);
		else if (!is_being_tried(cr))
			give_chance(cr);
	}
}

struct lease *consumer_lease(struct consumer *c)
{
	struct getter *g = c->getter;

	if (!g)
		return &c->lease;
	if (!g->lease)
		g->lease = lease_create(g->broker, c->lease.holder);
	return g->lease;
}

/* A single-active queue: one subscription at a time takes its messages. The others stand
 * in line.
 *
 * The line is in the order of priority, then of arrival, and its first one is to be
 * active. When the active one goes, the next takes over at once. When one of a higher
 * priority comes, the active one is relieved: it gets nothing more, and its successor
 * begins when all that it holds is settled. So two never work at a time, unless one has
 * gone and has left what it holds to its channel. */

static void enter_line(struct queue *q, struct consumer *c)
{
	heap_set(&q->line, &c->line, consumer_place(c->priority, ++q->arrivals));
}

static void leave_line(struct queue *q, struct consumer *c)
{
	heap_remove(&q->line, &c->line);
	if (q->active == c)
		q->active = NULL;
	queue_activate(q);
}

void consumer_add(struct queue *q, struct consumer *c)
{
	c->queue = q;
	c->is_active = !q->config.is_single_active;
	TAILQ_INSERT_TAIL(&q->consumers, c, queue_link);
	if (c->getter) {
		take_turn(q, c);
	} else {
		q->consumer_count++;
		q->had_consumer = true;
		q->has_exclusive |= c->is_exclusive;
		if (q->config.is_single_active)
			enter_line(q, c);
		consumer_update(c);
	}
	queue_activate(q);
}

void consumer_remove(struct consumer *c)
{
	struct queue *q = c->queue;

	if (!q)
		return;
	TAILQ_REMOVE(&q->consumers, c, queue_link);
	heap_remove(&q->able, &c->turn);
	if (c->credit)
		forget_credit(c);
	if (c->has_looked)
		TAILQ_REMOVE(&q->looked, c, look_link);
	refusal_forget(c);
	queue_use(q);
	c->queue = NULL;
	if (c->getter)
		return;
	q->consumer_count--;
	q->has_exclusive &= !c->is_exclusive;
	if (q->config.is_single_active)
		leave_line(q, c);
	if (queue_is_abandoned(q))
		queue_activate(q); /* the turn finds that it is to go */
}

/* A consumer with a shared credit comes back by its turn alone: others may be before
 * it. */
static bool must_want(struct consumer *c, bool is_able)
{
	if (!c->credit)
		return false;
	if (!could_take(c)) {
		forget_credit(c);
		return false;
	}
	return !is_able || credit_is_full(c->credit);
}

void consumer_update(struct consumer *c)
{
	struct queue *q = c->queue;
	bool is_able = consumer_is_able(c);

	if (!q)
		return;
	if (must_want(c, is_able)) {
		heap_remove(&q->able, &c->turn);
		want_credit(c);
	} else if (is_able && !could_take(c)) {
		heap_remove(&q->able, &c->turn);
	} else if (!is_able && could_take(c)) {
		admit(c);
	}
}

/* One that is idle is not active: what it lacks is no credit. */
void consumer_wake(struct consumer *c)
{
	if (c->is_active)
		return;
	c->is_active = true;
	consumer_update(c);
}

void consumer_rest(struct consumer *c)
{
	c->is_active = false;
	consumer_update(c);
}

void consumer_looked(struct consumer *c)
{
	c->has_looked = true;
	TAILQ_INSERT_TAIL(&c->queue->looked, c, look_link);
	consumer_update(c);
}

void consumer_look_again(struct queue *q)
{
	struct consumer *c;

	while ((c = TAILQ_FIRST(&q->looked)) != NULL) {
		TAILQ_REMOVE(&q->looked, c, look_link);
		c->has_looked = false;
		consumer_update(c);
	}
}

struct consumer *consumer_next(struct queue *q)
{
	struct heap_node *n;

	while ((n = heap_min(&q->able)) != NULL) {
		struct consumer *c = container_of(n, struct consumer, turn);

		if (can_take(c))
			return c;
		consumer_update(c);
	}
	return NULL;
}

void consumer_pass_turn(struct consumer *c)
{
	take_turn(c->queue, c);
}

/* Apart, so that what comes of most settles needs no frame. */
static __attribute__((noinline)) void come_back(struct consumer *c, uint32_t count)
{
	if (c->credit)
		return_credit(c->credit, count);
	if (consumer_is_able(c))
		return;
	consumer_update(c);
	if (!c->is_active && c->lease.count == 0 && c->queue)
		queue_activate(c->queue); /* its successor may begin */
}

void consumer_settled(struct consumer *c, uint32_t count)
{
	if (!consumer_is_able(c) || c->credit)
		come_back(c, count);
}

static void set_active(struct consumer *c, bool is_active)
{
	if (c->is_active == is_active)
		return;
	c->is_active = is_active;
	consumer_update(c);
	c->ops->on_active(c);
}

void consumer_choose_active(struct queue *q)
{
	struct heap_node *n = heap_min(&q->line);
	struct consumer *first = n ? container_of(n, struct consumer, line) : NULL;

	if (q->active && q->active != first) {
		set_active(q->active, false);
		if (q->active->lease.count > 0)
			return;
	}
	q->active = first;
	if (first)
		set_active(first, true);
}
