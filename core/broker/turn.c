#include "turn.h"

#include <sched.h>

#include "base/container.h"
#include "host/log.h"
#include "delivery.h"
#include "group.h"
#include "group_settle.h"
#include "broker.h"
#include "lease.h"
#include "lock.h"
#include "overflow.h"
#include "definition.h"
#include "pause.h"
#include "group_pause.h"
#include "retention.h"
#include "shard/commit.h"
#include "shard/dedupe.h"
#include "settle.h"
#include "vhost.h"
#include "queue.h"

static void tick_shards(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->timers)) != NULL && n->key <= b->now_ms) {
		struct shard *sh = container_of(n, struct shard, timer);
		int64_t key = n->key;

		shard_tick(sh);
		/* Cut short by its bound: go on in the next turn. */
		n = heap_min(&b->timers);
		if ((n && n->key <= key) || pace_is_spent(&b->pace, false))
			break;
	}
}

/* The end of a lease.
 *
 * The oldest message of the consumer has failed. If the consumer has settled nothing else
 * meanwhile, it may hang: the others that it holds return, without a failure, and it gets
 * one message at a time until it settles one. */

/* Messages of a consumer that hangs which return in one turn. */
#define RETURNS_MAX 1024

static void tell_lapse(struct lease *l, const struct entry *e)
{
	const struct lapse what = {
		.tag = e->tag, .count = 1, .queue = entry_queue(e), .id = e->id
	};

	l->holder->on_lapse(l->holder, &what);
}

/* From the last to the first, so that each enters at the queue's front. What a commit
 * settles stays. False: there are more. */
static bool return_behind(struct lease *l)
{
	struct entry *e = TAILQ_LAST(&l->entries, entry_list), *before;

	for (unsigned i = 0; e->tag != l->oldest; e = before) {
		before = TAILQ_PREV(e, entry_list, lease_link);
		if (e->state != ENTRY_UNACKED)
			continue;
		if (++i > RETURNS_MAX)
			return false;
		tell_lapse(l, e);
		settle_entry(e, FATE_RETURNED, 0);
	}
	return true;
}

/* False: it goes on in the next turn. */
static bool end_entry(struct lease *l)
{
	struct entry *e = TAILQ_FIRST(&l->entries);

	if (e->state != ENTRY_UNACKED) {
		lease_work(l); /* a commit settles it, and is under way */
		return true;
	}
	if (l->is_stalled && !return_behind(l))
		return false;
	tell_lapse(l, e);
	settle_entry(e, FATE_TIMED_OUT, 0);
	return true;
}

static void return_run(struct run *run)
{
	group_settle_lapse(run, run->first_tag, run->count);
	group_settle_return(run, run->first_tag, run->count, FATE_RETURNED);
}

/* The rest of the run returns from behind, too. */
static void end_record(struct lease *l)
{
	struct run *run = lease_run_from(l, l->oldest), *last;
	uint64_t tag = l->oldest;

	while (l->is_stalled && (last = lease_run_from(l, run->first_tag + run->count)))
		return_run(last);
	if (l->is_stalled && run->count > 1) {
		group_settle_lapse(run, tag + 1, run->count - 1);
		group_settle_return(run, tag + 1, run->count - 1, FATE_RETURNED);
		run = lease_run_from(l, tag);
	}
	group_settle_lapse(run, tag, 1);
	group_settle_fail(run, tag, FATE_TIMED_OUT, 0);
}

/* The lease may be gone afterwards. False: likewise. */
static bool end_lease(struct lease *l)
{
	if (l->consumer && l->holder->has_older(l)) {
		lease_put_off(l);
		return true;
	}
	if (!l->has_settled)
		l->is_stalled = true;
	if (!TAILQ_EMPTY(&l->entries))
		return end_entry(l);
	end_record(l);
	return true;
}

static void end_rest(struct lease *l)
{
	l->rest_until_ms = 0;
	if (l->consumer)
		consumer_update(l->consumer);
}

static void tell_lease(struct lease *l)
{
	int64_t left_ms = l->end_ms - l->broker->mono_ms;

	l->is_told = true;
	l->consumer->ops->on_lease(l->consumer, l->oldest, left_ms > 0 ? left_ms : 0);
}

/* The time of the next end of a lease, or 0. */
static int64_t next_lease_ms(const struct lease *l)
{
	int64_t due_ms = l->oldest ? l->end_ms : 0;

	if (due_ms && l->notify_ms && !l->is_told)
		due_ms -= l->notify_ms;
	return heap_earlier(due_ms, l->rest_until_ms);
}

/* False: it is not done. */
static bool wake_lease(struct lease *l)
{
	struct broker *b = l->broker;
	int64_t due_ms;

	if (l->rest_until_ms && l->rest_until_ms <= b->heard_ms)
		end_rest(l);
	if (l->oldest && l->notify_ms && !l->is_told &&
	    l->end_ms - l->notify_ms <= b->heard_ms)
		tell_lease(l);
	due_ms = next_lease_ms(l);
	if (due_ms)
		heap_set(&b->leases, &l->timer, due_ms);
	else
		heap_remove(&b->leases, &l->timer);
	return !l->oldest || l->end_ms > b->heard_ms || end_lease(l);
}

static void end_leases(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->leases)) != NULL && n->key <= b->heard_ms)
		if (!wake_lease(container_of(n, struct lease, timer)) ||
		    pace_is_spent(&b->pace, false))
			return;
}

static void delete_queue(struct queue *q)
{
	queue_erase(q, NULL);
	queue_destroy(q);
}

/* Queues have something to do at a time, though nothing happens to them. */
static void wake_queues(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->wakes)) != NULL && n->key <= b->heard_ms) {
		struct queue *q = container_of(n, struct queue, wake);

		heap_remove(&b->wakes, n);
		pause_tick(q);
		if (q->topic)
			group_pause_tick(q->topic);
		if (queue_is_expired(q)) {
			log_info("queue '%s' of vhost '%s' is deleted: nobody has used "
				 "it for its expires=%s",
				 q->name, q->vhost->name,
				 args_get(&q->config.canonical, "expires"));
			delete_queue(q);
		} else {
			queue_activate(q);
		}
		if (pace_is_spent(&b->pace, false))
			return;
	}
}

/* Messages that no consumer takes may be more than the queue has room for. */
static bool serve(struct queue *q)
{
	bool has_more = q->topic ? group_deliver(q) : delivery_turn(q);

	return (q->config.overflow && overflow_turn(q)) || has_more;
}

/* One pass over the queues that may have something to deliver; those that still
 * have are in the list again afterwards. */
static void serve_queues(struct broker *b)
{
	struct queue *last = TAILQ_LAST(&b->active, queue_list);
	struct queue *q;
	bool is_last;

	while ((q = TAILQ_FIRST(&b->active)) != NULL) {
		is_last = q == last;
		TAILQ_REMOVE(&b->active, q, active_link);
		q->is_active = false;
		if (queue_is_abandoned(q)) {
			log_debug("auto-delete queue '%s' has lost its last consumer",
				  q->name);
			delete_queue(q);
		} else if (serve(q)) {
			queue_activate(q);
		}
		if (is_last)
			break;
	}
}

static void answer_get(struct getter *g)
{
	if (!getter_wake(g))
		return;
	if (g->group)
		group_deliver_answer(g);
	else
		delivery_answer(g);
}

static void answer_gets(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->waits)) != NULL && n->key <= b->mono_ms)
		answer_get(container_of(n, struct getter, wait));
}

static void close_shards(struct broker *b)
{
	struct shard *sh;

	if (TAILQ_EMPTY(&b->env.closing))
		return;
	pace_begin(&b->pace);
	while ((sh = TAILQ_FIRST(&b->env.closing)) != NULL) {
		shard_close_some(sh);
		if (pace_is_over(&b->pace))
			return;
	}
}

void turn_tick(struct broker *b)
{
	b->env.may_expire = b->is_started && !b->is_draining;
	tick_shards(b);
	if (b->is_started) {
		wake_queues(b);
		lock_turn(b);
		retention_turn(b);
	}
	if (b->env.may_expire) {
		shard_expiry_turn(&b->env);
		end_leases(b);
		group_settle_turn(b);
	}
	if (b->is_started)
		dedupe_turn(b->dedupe);
	job_turn(b);
}

void turn_deal(struct broker *b)
{
	credit_turn(b);
	serve_queues(b);
	credit_turn(b);
	answer_gets(b);
	vhost_turn(b);
	binding_turn(b);
	close_shards(b);
}

/* A consumer that was just sent a message may be waiting for this processor, and
 * would go on waiting while Redis is sent its batch. To let it go first takes some
 * 12 us off the median delivery at 2,000 messages a second on two cores, and puts
 * twice that on the confirm. Under load there is always more than a light batch. */
static void flush(struct journal *j)
{
	if (journal_is_light(j))
		sched_yield();
	journal_flush(j);
}

void turn_flush(struct broker *b)
{
	if (!b->is_started)
		return;
	group_commit_turn(b);
	partition_flush(&b->partitions);
	if (b->env.store) {
		id_lease_turn(b);
		removal_turn(b);
		commit_flush(&b->env);
		flush(b->journal);
	}
	shared_sync_turn(b);
}

int64_t turn_due_ms(const struct broker *b)
{
	int64_t due_ms = journal_retry_unix_ms(b->journal);
	struct heap_node *n = heap_min(&b->timers);

	if (n)
		due_ms = heap_earlier(due_ms, n->key);
	if (b->env.may_expire) {
		due_ms = heap_earlier(due_ms, shard_expiry_due_ms(&b->env));
		if ((n = heap_min(&b->leases)) != NULL)
			due_ms = heap_earlier(due_ms, b->now_ms + (n->key - b->mono_ms));
		due_ms = heap_earlier(due_ms, group_settle_due_ms(b));
	}
	n = heap_min(&b->waits);
	if (n)
		due_ms = heap_earlier(due_ms, b->now_ms + (n->key - b->mono_ms));
	n = heap_min(&b->wakes);
	if (n && b->is_started)
		due_ms = heap_earlier(due_ms, b->now_ms + (n->key - b->mono_ms));
	due_ms = heap_earlier(due_ms, lock_due_ms(b));
	due_ms = heap_earlier(due_ms, dedupe_due_ms(b->dedupe));
	due_ms = heap_earlier(due_ms, id_lease_due_ms(b));
	due_ms = heap_earlier(due_ms, removal_due_ms(b));
	due_ms = heap_earlier(due_ms, retention_due_ms(b));
	due_ms = heap_earlier(due_ms, partition_due_ms(&b->partitions));
	due_ms = heap_earlier(due_ms, group_commit_due_ms(b));
	return heap_earlier(due_ms, shared_sync_due_ms(b));
}

bool turn_is_busy(const struct broker *b)
{
	return !TAILQ_EMPTY(&b->jobs) || !TAILQ_EMPTY(&b->active) ||
	       !TAILQ_EMPTY(&b->unbinding) || !TAILQ_EMPTY(&b->env.closing);
}
