#include "group_deal.h"

#include "getter.h"
#include "group_commit.h"
#include "member.h"
#include "queue.h"

#define DEAL_MAX 4096 /* messages of one topic in a turn */
#define ROUND_MAX 256 /* of one partition, before the next one's */
/* A client's output is looked at after so many bytes that were given to it. */
#define LOOK_BYTES 8192
#define PULL_BYTES ((size_t)1 << 20) /* a GET takes no more behind that */

/* What a member gets of one of its partitions in a round. */
struct round {
	struct member *member;
	struct consumer *consumer;
	struct group_claim *gc;
	struct broker *broker;
	unsigned left; /* messages */
	size_t bytes;  /* given since its output was looked at */
	int64_t until_ms;
	uint32_t lease_ms;
};

/* The consumer takes one more. */
static bool can_take(struct round *r)
{
	const struct consumer *c = r->consumer;

	if (r->left == 0)
		return false;
	if (c->getter)
		return c->getter->count < c->getter->max && r->member->bytes < PULL_BYTES;
	if (!c->is_auto_ack &&
	    (c->unacked >= c->prefetch || (c->credit && credit_is_full(c->credit))))
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
					.tag = c->is_auto_ack ? 0
							      : ++*c->holder->last_tag,
					.holder = c->holder,
					.consumer = c->getter ? NULL : c,
					.until_ms = r->until_ms,
					.lease_ms = r->lease_ms,
					.batch = batch };
}

static void hand_out(struct round *r, const struct record *record, struct run *run,
		     uint64_t tag)
{
	struct consumer *c = r->consumer;
	const struct record_delivery d = { record, r->gc->index, tag,
					   run ? run->attempts + 1 : 1 };

	r->left--;
	r->bytes += record->msg.payload_len + 64;
	c->delivered++;
	r->member->bytes += record->msg.payload_len;
	if (!c->is_auto_ack && run->count == 1)
		run_add(&c->holder->runs, run);
	if (!c->is_auto_ack && !c->getter) {
		c->unacked++;
		if (c->credit)
			c->credit->used++;
	}
	c->ops->on_record(c, &d);
}

/* What it would have read next, from that offset on, is perhaps no longer kept. False: it
 * is. */
static bool skip(struct round *r, uint64_t from)
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

static void hand_out_again(struct round *r, const struct record *record,
			   struct record_batch *batch, struct run *again)
{
	struct claim *claim = &r->gc->claim;
	const struct claim_delivery d = holding(r, record, batch);
	struct run *run = claim_hold_again(claim, again, &d);

	hand_out(r, record, run, d.tag);
	if (r->consumer->is_auto_ack)
		claim_settle(claim, run, record->offset, 1, NULL, NULL);
}

/* One that comes again. False: it cannot be had now. */
static bool give_again(struct round *r, struct run *again)
{
	struct record_batch *batch;
	struct record record;

	if (!read_next(r, &r->gc->again, again->first, &record, &batch))
		return skip(r, again->first);
	if (skip(r, again->first))
		return true;
	if (record.offset >= run_end(again))
		claim_give_up(&r->gc->claim, again); /* compaction has removed it */
	else
		hand_out_again(r, &record, batch, again);
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
		return skip(r, claim->reached);
	if (record.offset > claim->reached)
		skip(r, claim->reached);
	if (r->consumer->is_auto_ack) {
		claim_pass(claim, record.offset);
		hand_out(r, &record, NULL, 0);
	} else {
		const struct claim_delivery d = holding(r, &record, batch);

		hand_out(r, &record, claim_hold(claim, &d), d.tag);
	}
	return true;
}

/* The next message of the partition. False: there is none now. */
static bool give(struct round *r)
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

static uint32_t choose_lease(const struct consumer *c)
{
	uint32_t ms = c->ack_timeout_ms;

	return ms ? queue_limit_lease(c->queue, ms)
		  : (uint32_t)c->queue->config.ack_timeout_ms;
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

/* Gives how many messages it was. */
static unsigned serve(struct queue *q, struct member *m, unsigned max)
{
	struct group_claim *gc = TAILQ_FIRST(&m->ready);
	struct round r = { .member = m,
			   .consumer = m->consumer,
			   .gc = gc,
			   .broker = q->vhost->broker,
			   .left = max < ROUND_MAX ? max : ROUND_MAX };
	uint64_t committed = gc->claim.committed;
	unsigned wanted = r.left;

	r.lease_ms = choose_lease(m->consumer);
	r.until_ms = r.broker->mono_ms + r.lease_ms;
	while (can_take(&r) && give(&r))
		;
	count_round(q, wanted - r.left);
	if (gc->claim.committed != committed)
		group_commit_mark(gc);
	if (gc->is_ready) {
		/* The next one's turn. */
		TAILQ_REMOVE(&m->ready, gc, ready_link);
		TAILQ_INSERT_TAIL(&m->ready, gc, ready_link);
	}
	return wanted - r.left;
}

/* A GET is answered as soon as it has something. Gives how many messages it was. */
static unsigned serve_pull(struct queue *q, struct member *m, unsigned budget)
{
	struct getter *g = m->consumer->getter;
	unsigned given = 0, more;

	while (!TAILQ_EMPTY(&m->ready) && given < budget) {
		more = serve(q, m, budget - given);
		given += more;
		if (more == 0 && !TAILQ_EMPTY(&m->ready) && g->count > 0)
			break; /* it takes no more */
	}
	if (g->count > 0 || (m->is_short && !member_is_reading(m)))
		g->on_answer(g);
	else
		member_rest(m);
	return given;
}

bool group_deal(struct queue *q)
{
	unsigned budget = DEAL_MAX, given;
	struct broker *b = q->vhost->broker;
	struct consumer *c;

	if (b->is_draining)
		return false;
	while (budget > 0 && (c = consumer_next(q)) != NULL) {
		if (c->getter) {
			budget -= serve_pull(q, c->member, budget);
			continue;
		}
		if (TAILQ_EMPTY(&c->member->ready)) {
			member_rest(c->member);
			continue;
		}
		if (q->able.count > 1)
			consumer_pass_turn(c);
		given = serve(q, c->member, budget);
		budget -= given;
		if (c->unacked >= c->prefetch)
			consumer_update(c);
		if (pace_is_spent(&b->pace, given > PACE_STEPS))
			return true;
	}
	return budget == 0;
}
