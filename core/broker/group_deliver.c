#include "group.h"

#include "delivery.h"
#include "queue.h"

#define DELIVER_MAX 4096 /* messages of one topic in a turn */
#define ROUND_MAX 256    /* of one partition, before the next one's */
/* A client's output is looked at after so many bytes that were given to it. */
#define LOOK_BYTES 8192

/* The share of a member of one of its partitions in a round; or of a GET, in all. */
struct round {
	struct consumer *consumer;
	struct group_claim *gc;
	struct broker *broker;
	unsigned left; /* messages */
	size_t bytes;  /* given: to a GET; to a member since its output was looked at */
	struct lease *lease;
	uint32_t lease_ms;
	bool is_offered;
	unsigned asked; /* messages about which scripts of deliver/ were asked */
};

/* The consumer takes one more. */
static bool can_take(struct round *r)
{
	const struct consumer *c = r->consumer;

	if (r->left == 0 || (r->asked > 0 && pace_is_spent(&r->broker->pace, false)))
		return false;
	if (c->getter)
		return r->bytes < GETTER_BYTES;
	if (!c->is_auto_ack &&
	    (consumer_is_full(c) || (c->credit && credit_is_full(c->credit))))
		return false;
	if (r->bytes < LOOK_BYTES)
		return true;
	r->bytes = 0;
	return c->ops->can_take(c);
}

static struct claim_delivery holding(const struct round *r, const struct record *record,
				     struct record_batch *batch)
{
	struct consumer *c = r->consumer;

	return (struct claim_delivery){ .offset = record->offset,
					.tag = c->is_auto_ack
						       ? 0
						       : ++*c->lease.holder->last_tag,
					.lease = r->lease,
					.now_ms = r->broker->mono_ms,
					.lease_ms = r->lease_ms,
					.batch = batch };
}

/* NULL: a reader. */
static const char *group_name(const struct consumer *c)
{
	const struct topic_group *g = c->getter   ? c->getter->group
				      : c->member ? c->member->group
						  : NULL;

	return g ? g->name : NULL;
}

static __attribute__((noinline)) void tell_record(const struct round *r,
						  const struct record_delivery *d)
{
	const struct consumer *c = r->consumer;
	const struct record_place at = { c->queue, group_name(c), d->partition,
					 d->record->offset };

	STEP_TELL(&r->broker->followers, STEP_DELIVERED, .id = d->record->msg.id,
		  .consumer = c, .place = &at, .record = d);
}

static void hand_out(struct round *r, const struct record *record, struct run *run,
		     uint64_t tag)
{
	struct consumer *c = r->consumer;
	const struct record_delivery d = { .record = record,
					   .partition = r->gc->index,
					   .tag = tag,
					   .attempt = run ? run->failures + 1 : 1,
					   .is_redelivered = run && run->deliveries > 0 };

	r->left--;
	r->bytes += record->msg.payload_len + 64;
	c->delivered++;
	if (!c->is_auto_ack) {
		if (run->count == 1)
			run_add(&c->lease.holder->runs, run);
		lease_add_record(r->lease, tag, r->lease_ms);
		if (c->credit)
			c->credit->used++;
	}
	c->ops->on_record(c, &d);
	if (step_is_followed(&r->broker->followers, STEP_DELIVERED))
		tell_record(r, &d);
}

/* Skip records that are perhaps no longer kept, from that offset on. False: all are
 * kept. */
static bool skip_lost(struct round *r, uint64_t from)
{
	uint64_t start = partition_start(r->gc->partition);

	if (start <= from)
		return false;
	claim_skip(&r->gc->claim, start);
	r->consumer->ops->on_skipped(r->consumer, r->gc->index, from, start);
	return true;
}

/* Read on with the cursor at the offset. False: nothing can be had of it now. */
static bool read_next(struct round *r, struct cursor **cursor, uint64_t offset,
		      struct record *out, struct record_batch **batch)
{
	int rc;

	if (!*cursor)
		*cursor = cursor_create(r->gc->partition, offset);
	else
		cursor_seek(*cursor, offset);
	rc = cursor_next(*cursor, out, batch);
	r->gc->is_reading = rc == TIDE_AGAIN || rc == TIDE_ESTORE;
	if (rc == TIDE_OK)
		return true;
	if (rc == TIDE_EMPTY) {
		cursor_destroy(*cursor);
		*cursor = NULL;
	}
	/* There are news when more is there, and when a read may be tried again. */
	group_rest(r->gc);
	return false;
}

/* The answer of the scripts of deliver/ about a record. */
struct offered {
	struct record record; /* with the headers that they leave */
	struct msg *head;
	int64_t delay_ms;
};

/* The message goes back before anybody has seen it. Others of the partition wait, if the
 * topic keeps their order. */
static void put_off(const struct round *r, struct run *run, int64_t delay_ms)
{
	const struct claim_return how = { run->first, run->count,
					  r->broker->mono_ms + delay_ms, CLAIM_UNSEEN };

	run = claim_return(&r->gc->claim, run, &how, NULL, NULL);
	/* A run that is given up is read again. */
	record_batch_unref(run->batch);
	run->batch = NULL;
}

/* False: not now. */
static __attribute__((noinline)) bool ask_script(struct round *r,
						 const struct record *record,
						 uint32_t attempt, struct offered *o)
{
	const struct delivery_question asked = { &record->msg, attempt, r->gc->index,
						 record->offset };

	r->asked++;
	o->record = *record;
	if (!delivery_ask_record(r->consumer, &asked, &o->head, &o->delay_ms))
		return false;
	if (o->head) {
		o->record.msg.headers = o->head->headers;
		o->record.msg.header_count = o->head->header_count;
	}
	return true;
}

static void put_off_new(const struct round *r, const struct record *record,
			struct record_batch *batch, int64_t delay_ms)
{
	const struct claim_delivery nobody = { .offset = record->offset, .batch = batch };

	put_off(r, claim_hold(&r->gc->claim, &nobody), delay_ms);
}

/* Apart: what comes again is rare, and what came new needs no such room. */
static __attribute__((noinline)) void hand_out_again(struct round *r,
						     const struct record *record,
						     struct record_batch *batch,
						     struct run *again)
{
	struct claim *claim = &r->gc->claim;
	const struct claim_delivery d = holding(r, record, batch);
	struct run *run = claim_hold_again(claim, again, &d);
	struct offered o = { .head = NULL };
	struct msg_header headers[MSG_HEADERS_ALL];
	struct record told;

	if (run->reason.len > 0) {
		told = *record;
		record_add_reason(&told, run->reason, headers);
		record = &told;
	}
	if (r->is_offered) {
		if (!ask_script(r, record, run->failures + 1, &o)) {
			put_off(r, run, o.delay_ms);
			return;
		}
		record = &o.record;
	}
	hand_out(r, record, run, d.tag);
	msg_unref(o.head);
	if (r->consumer->is_auto_ack)
		claim_settle(claim, run, record->offset, 1, NULL, NULL);
}

/* One that comes again. False: it cannot be had now. */
static bool give_again(struct round *r, struct run *again)
{
	struct record_batch *batch;
	struct record record;

	if (!read_next(r, &r->gc->again, again->first, &record, &batch))
		return skip_lost(r, again->first);
	if (skip_lost(r, again->first))
		return true;
	if (record.offset >= run_end(again))
		claim_give_up(&r->gc->claim, again); /* compaction has removed it */
	else
		hand_out_again(r, &record, batch, again);
	return true;
}

/* Inline: a delivery that no script is asked about pays for no call. */
static inline __attribute__((always_inline)) void
hand_out_new(struct round *r, const struct record *record, struct record_batch *batch)
{
	struct claim *claim = &r->gc->claim;

	if (r->consumer->is_auto_ack) {
		claim_pass(claim, record->offset);
		hand_out(r, record, NULL, 0);
	} else {
		const struct claim_delivery d = holding(r, record, batch);

		hand_out(r, record, claim_hold(claim, &d), d.tag);
	}
}

static __attribute__((noinline)) bool
give_offered(struct round *r, const struct record *record, struct record_batch *batch)
{
	struct offered o;

	if (ask_script(r, record, 1, &o)) {
		hand_out_new(r, &o.record, batch);
		msg_unref(o.head);
		return true;
	}
	put_off_new(r, record, batch, o.delay_ms);
	return true;
}

static bool give_new(struct round *r)
{
	struct claim *claim = &r->gc->claim;
	struct record_batch *batch;
	struct record record;

	if (claim->reached - claim->committed >= GROUP_AHEAD_MAX) {
		r->gc->is_far_ahead = true;
		group_rest(r->gc);
		return false;
	}
	if (!read_next(r, &r->gc->cursor, claim->reached, &record, &batch))
		return skip_lost(r, claim->reached);
	if (record.offset > claim->reached)
		skip_lost(r, claim->reached);
	if (r->is_offered)
		return give_offered(r, &record, batch);
	hand_out_new(r, &record, batch);
	return true;
}

/* The next message of the partition. False: there is none now. */
static bool give_one(struct round *r)
{
	const struct queue *q = r->gc->group->topic->queue;
	struct claim *claim = &r->gc->claim;
	struct run *again;

	if (claim->returned == 0)
		return give_new(r);
	if (!q->config.keeps_order) {
		again = claim_first_due(claim);
		return again ? give_again(r, again) : give_new(r);
	}
	again = claim_first_returned(claim);
	if (again->due_ms == 0)
		return give_again(r, again);
	/* The others of the partition wait for it. */
	group_rest(r->gc);
	return false;
}

static void count_round(struct queue *q, unsigned given)
{
	struct broker *b = q->vhost->broker;

	if (given == 0)
		return;
	queue_rate(q);
	q->counters.delivered += given;
	b->counters.delivered += given;
}

/* Others wait for what comes again later: not for what is no longer kept. */
static void skip_returned(struct round *r)
{
	const struct run *again = claim_first_returned(&r->gc->claim);

	if (again)
		skip_lost(r, again->first);
}

/* Up to `max` messages of the partition, which is in the list `ready`. Gives how many it
 * was. */
static unsigned serve_consumer(struct consumer *c, struct group_claim *gc,
			       struct group_claim_list *ready, unsigned max)
{
	struct round r = {
		.consumer = c, .gc = gc, .broker = c->queue->vhost->broker, .left = max
	};
	uint64_t committed = gc->claim.committed;

	gc->is_reading = gc->is_far_ahead = false;
	if (c->getter)
		r.bytes = c->getter->bytes;
	skip_returned(&r);
	r.lease_ms = queue_lease(c->queue, c->ack_timeout_ms);
	r.is_offered = delivery_is_asked(c->queue);
	r.lease = c->is_auto_ack ? NULL : consumer_lease(c);
	while (can_take(&r) && give_one(&r))
		;
	if (c->getter)
		c->getter->bytes = r.bytes;
	count_round(c->queue, max - r.left);
	if (gc->claim.committed != committed)
		group_commit_mark(gc);
	if (gc->is_ready) {
		/* The next one's turn. */
		TAILQ_REMOVE(ready, gc, ready_link);
		TAILQ_INSERT_TAIL(ready, gc, ready_link);
	}
	return max - r.left;
}

/* ---- GETs ----------------------------------------------------------------------------
 */

/* The partition that the first in line takes from next: an answer has messages of one.
 * NULL: none has anything for it. */
static struct group_claim *next_source(const struct topic_group *g)
{
	struct group_claim *source = TAILQ_FIRST(&g->pulls)->source;

	if (!source)
		return TAILQ_FIRST(&g->ready);
	return source->is_ready && group_is_free(source) ? source : NULL;
}

/* The first in line gets what the partition has. True: it has all that there is for it,
 * was answered and has gone, and perhaps its group.
 *
 * @param given  receives how many messages it was */
static bool serve_pull(struct topic_group *g, struct group_claim *gc, unsigned *given)
{
	struct getter *pull = TAILQ_FIRST(&g->pulls);

	*given = serve_consumer(pull->consumers, gc, &g->ready, pull->max - pull->count);
	if (*given == 0 && !pull->source)
		return false;
	if (gc->is_reading && !pull->is_hasty) {
		pull->source = gc;
		getter_await(pull);
		return false;
	}
	pull->source = NULL;
	if (!group_is_free(gc))
		group_rest(gc);
	g->next_pulled = gc->index + 1;
	pull->on_answer(pull);
	return true;
}

bool group_deliver_pull(struct getter *pull)
{
	struct topic_group *g = pull->group;
	struct group_claim *gc;
	unsigned given;

	while ((gc = next_source(g)) != NULL) {
		bool is_first = TAILQ_FIRST(&g->pulls) == pull;

		if (serve_pull(g, gc, &given) && is_first)
			return false;
	}
	return true;
}

/* Something that a GET may take is being looked for. */
static bool is_being_read(const struct topic_group *g)
{
	for (unsigned i = 0; !group_is_paused(g) && i < group_width(g); i++) {
		const struct group_claim *gc = group_claim(g, i);

		if (gc && group_is_free(gc) && (gc->search || gc->is_reading))
			return true;
	}
	return false;
}

/* The time of a GET is over. True: it waits on, since messages for it are being read, for
 * GETTER_READ_MS at most. */
static bool stay_late(struct getter *pull)
{
	struct topic_group *g = pull->group;

	if (pull->is_hasty || !is_being_read(g))
		return false;
	g->late_pulls += !pull->is_late;
	pull->is_late = true;
	getter_await(pull);
	return true;
}

/* The group has nothing at present: those who wait for a read end, unless there is one.
 */
static void end_late_pulls(struct topic_group *g)
{
	struct getter *pull, *next;

	if (g->late_pulls == 0 || is_being_read(g))
		return;
	for (pull = TAILQ_FIRST(&g->pulls); pull; pull = next) {
		next = TAILQ_NEXT(pull, line_link);
		if (pull->is_late)
			pull->on_answer(pull);
	}
}

void group_deliver_answer(struct getter *pull)
{
	pull->is_over = true;
	if (!pull->broker->is_draining) {
		if (!group_deliver_pull(pull) || stay_late(pull))
			return;
	}
	pull->on_answer(pull);
}

/* The GETs that the consumer stands for may be given something. */
static unsigned deliver_pulls(struct consumer *c)
{
	struct topic_group *g = c->getter->group;
	struct group_claim *gc = next_source(g);
	unsigned given = 0;

	if (gc) {
		serve_pull(g, gc, &given);
		return given;
	}
	consumer_rest(c);
	end_late_pulls(g);
	return 0;
}

/* ---- members -------------------------------------------------------------------------
 */

static unsigned deliver_to_member(struct consumer *c, unsigned max)
{
	struct member *m = c->member;
	unsigned given;

	if (TAILQ_EMPTY(&m->ready)) {
		consumer_rest(c);
		return 0;
	}
	if (c->queue->able.count > 1)
		consumer_pass_turn(c);
	given = serve_consumer(c, TAILQ_FIRST(&m->ready), &m->ready,
			       max < ROUND_MAX ? max : ROUND_MAX);
	if (consumer_is_full(c))
		consumer_update(c);
	return given;
}

bool group_deliver(struct queue *q)
{
	unsigned budget = DELIVER_MAX, given;
	struct broker *b = q->vhost->broker;
	struct consumer *c;

	if (b->is_draining)
		return false;
	while (budget > 0 && (c = consumer_next(q)) != NULL) {
		given = c->getter ? deliver_pulls(c) : deliver_to_member(c, budget);
		budget -= given < budget ? given : budget;
		if (pace_is_spent(&b->pace, given > PACE_STEPS))
			return true;
	}
	return budget == 0;
}
