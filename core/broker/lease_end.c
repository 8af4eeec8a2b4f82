#include "lease_end.h"

#include "base/container.h"
#include "broker.h"
#include "consumer.h"
#include "group_settle.h"
#include "queue.h"
#include "settle.h"

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
static bool end(struct lease *l)
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

static void tell(struct lease *l)
{
	int64_t left_ms = l->end_ms - l->broker->mono_ms;

	l->is_told = true;
	l->consumer->ops->on_lease(l->consumer, l->oldest, left_ms > 0 ? left_ms : 0);
}

/* The time of the next end of a lease, or 0. */
static int64_t next_ms(const struct lease *l)
{
	int64_t due_ms = l->oldest ? l->end_ms : 0;

	if (due_ms && l->notify_ms && !l->is_told)
		due_ms -= l->notify_ms;
	return heap_earlier(due_ms, l->rest_until_ms);
}

/* False: it is not done. */
static bool wake(struct lease *l)
{
	struct broker *b = l->broker;
	int64_t due_ms;

	if (l->rest_until_ms && l->rest_until_ms <= b->heard_ms)
		end_rest(l);
	if (l->oldest && l->notify_ms && !l->is_told &&
	    l->end_ms - l->notify_ms <= b->heard_ms)
		tell(l);
	due_ms = next_ms(l);
	if (due_ms)
		heap_set(&b->leases, &l->timer, due_ms);
	else
		heap_remove(&b->leases, &l->timer);
	return !l->oldest || l->end_ms > b->heard_ms || end(l);
}

void lease_end_turn(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->leases)) != NULL && n->key <= b->heard_ms)
		if (!wake(container_of(n, struct lease, timer)) ||
		    pace_is_spent(&b->pace, false))
			return;
}

int64_t lease_end_due_ms(const struct broker *b)
{
	const struct heap_node *n = heap_min(&b->leases);

	return n ? b->now_ms + (n->key - b->mono_ms) : 0;
}
