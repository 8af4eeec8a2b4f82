/* ACK, NACK and TOUCH: what channels hold is settled.
 *
 * A request may name any number of tags, and each may cost a call of a script.
 * What does not fit into a slice of the turn goes on in the next ones; until it
 * is done its session is sent no further request (session_is_held). */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "broker/group_settle.h"
#include "broker/settle.h"
#include "session_private.h"

/* An ACK comes after the lease has ended, and the work was done. If the message is back
 * in its queue, or with the same channel by another tag, it is acknowledged. If somebody
 * else has it, or has settled it, the ACK is refused: TIDE_ELEASE. */

/* An ACK until all queues have been asked. */
struct late {
	struct reply *reply;
	uint64_t count;
	uint64_t first; /* the first late tag */
	unsigned left;  /* queues that are asked, and one while they are begun */
	struct error err;
};

/* A message of a queue. */
struct late_message {
	uint64_t queue, id;
};

/* The first of the range that the channel has lost, NULL: none. */
static __attribute__((noinline)) struct lapsed_item *
late_first(struct channel *ch, const struct tag_range *range)
{
	struct lapsed_item *item = lapsed_from(&ch->lapsed, range->first);

	return item && item->tag <= range->last ? item : NULL;
}

static void late_done(struct late *late)
{
	if (--late->left > 0)
		return;
	if (late->count == 0 && late->err.code == TIDE_OK)
		error_set(
			&late->err, TIDE_ELEASE,
			"tag %llu is no longer held: its lease ended, and somebody else "
			"has its message or has settled it",
			(unsigned long long)late->first);
	if (late->count > 0)
		reply_count(late->reply, late->count);
	else
		reply_error(late->reply, &late->err);
	mem_free(late);
}

static void on_acked(void *ctx, uint64_t count, const struct error *err)
{
	struct late *late = ctx;

	late->count += count;
	if (err->code < 0)
		late->err = *err;
	late_done(late);
}

static bool ack_record(struct channel *ch, const struct lapsed_item *item)
{
	struct queue *q = queue_by_serial(ch->session->broker, item->queue);
	struct topic_group *g = q ? group_find(q->topic, slice_from(item->group)) : NULL;
	struct group_claim *gc = g && item->partition < group_width(g)
					 ? group_claim(g, item->partition)
					 : NULL;
	const struct holder *own = ch->session->is_beside ? NULL : &ch->holder;
	uint64_t tag;

	if (!gc || !group_settle_ack_late(gc, item->offset, own, &tag))
		return false;
	if (tag)
		lapsed_add_done(&ch->lapsed, tag);
	return true;
}

static int compare_queues(const void *a, const void *b)
{
	const struct late_message *x = a, *y = b;

	return (x->queue > y->queue) - (x->queue < y->queue);
}

/* Settle the messages of the same queue as the first. Gives how many. */
static size_t ack_queue(struct late *late, const struct late_message *messages,
			size_t count, struct broker *b)
{
	struct queue *q = queue_by_serial(b, messages[0].queue);
	uint64_t *ids = mem_alloc(count * sizeof(*ids));
	size_t n = 0;

	for (; n < count && messages[n].queue == messages[0].queue; n++)
		ids[n] = messages[n].id;
	if (q) {
		late->left++;
		session_by_id_ack(q, &(struct by_id_ack){ ids, (unsigned)n, late->reply,
							  on_acked, late });
	}
	mem_free(ids);
	return n;
}

/* Whoever acknowledges is at work: it gets more than one message again. */
static void revive(struct channel *ch)
{
	struct subscription *sub;

	TAILQ_FOREACH (sub, &ch->subscriptions, channel_link) {
		sub->consumer.lease.is_stalled = false;
		consumer_update(&sub->consumer);
	}
}

/* An ACK that has settled `count` messages: the rest of its ranges may be late. Answers
 * it. */
static __attribute__((noinline)) void ack_late(struct channel *ch,
					       const struct settle_spec *spec,
					       uint64_t count, struct reply *r)
{
	struct late *late = mem_alloc(sizeof(*late));
	struct late_message *messages =
		mem_alloc((ch->lapsed.count + 1) * sizeof(*messages));
	struct broker *b = ch->session->broker;
	struct lapsed_item *item;
	size_t n = 0;

	*late = (struct late){ .reply = r, .count = count, .left = 1 };
	for (size_t i = 0; i < spec->count; i++)
		while ((item = late_first(ch, &spec->ranges[i])) != NULL) {
			if (!late->first)
				late->first = item->tag;
			if (item->id)
				messages[n++] =
					(struct late_message){ item->queue, item->id };
			else if (!item->queue || ack_record(ch, item))
				late->count++;
			lapsed_remove(&ch->lapsed, item);
		}
	revive(ch);
	qsort(messages, n, sizeof(*messages), compare_queues);
	for (size_t at = 0; at < n;)
		at += ack_queue(late, messages + at, n - at, b);
	mem_free(messages);
	late_done(late);
}

struct settle_job {
	TAILQ_ENTRY(settle_job) link;
	struct channel *channel;
	struct settle_spec spec; /* its ranges are a copy */
	struct reply *reply;
	size_t at;      /* the range */
	uint64_t first; /* the tag in it */
	uint64_t count;
	bool has_settled_entries;
};

/* The first one from a tag on that no commit is settling. */
static struct entry *held_next(const struct held *held, uint64_t tag)
{
	struct entry *e = held_from(held, tag);

	while (e && e->flags & LIES_IN_COMMIT)
		e = held_from(held, e->tag + 1);
	return e;
}

/* A part of the range is of a topic. */
static bool has_run(const struct channel *ch, const struct tag_range *range)
{
	const struct run *run = run_from_tag(&ch->holder.runs, range->first);

	return run && run->first_tag <= range->last;
}

static int check_range(struct channel *ch, const struct tag_range *range, bool is_ack,
		       struct error *err)
{
	const struct entry *e = held_next(&ch->held, range->first);

	if ((e && e->tag <= range->last) || has_run(ch, range) ||
	    (is_ack && late_first(ch, range)))
		return TIDE_OK;
	return channel_refuse_tag(ch, range->first, err);
}

static int check_topics(const struct channel *ch, const struct settle_spec *spec,
			struct error *err)
{
	bool is_in_transaction =
		(spec->transaction || ch->transaction) && spec->how != SETTLE_TOUCH;

	if (!is_in_transaction && !spec->has_priority)
		return TIDE_OK;
	for (size_t i = 0; i < spec->count; i++)
		if (has_run(ch, &spec->ranges[i]))
			return error_set(err, TIDE_EDENIED,
					 is_in_transaction
						 ? "messages of topics are not settled "
						   "by a transaction"
						 : "NACK pri= is for messages of queues: "
						   "those of topics keep their order");
	return TIDE_OK;
}

static void touch(struct entry *e, int64_t ms)
{
	uint32_t lease_ms = queue_limit_lease(entry_queue(e), ms ? ms : e->lease_ms);
	struct lease *l = e->lease;

	/* One that has begun begins anew, and keeps its length for the next TOUCH. */
	if (e->tag != l->oldest)
		e->lease_ms = lease_ms;
	lease_touch(l, e->tag, lease_ms);
}

static enum settle how_of(const struct entry *e, const struct settle_spec *spec)
{
	if (spec->how != SETTLE_RETURN)
		return spec->how;
	return config_is_given(&entry_queue(e)->config, "delivery-limit")
		       ? SETTLE_AFTER
		       : SETTLE_REQUEUE;
}

static void give_back(struct entry *e, const struct settle_spec *spec)
{
	enum settle how = how_of(e, spec);

	if (how == SETTLE_REQUEUE)
		lease_give_back(e->lease);
	else
		lease_progress(e->lease, e->tag);
	if (spec->has_priority)
		settle_set_priority(e, spec->priority);
	if (spec->reason.len > 0)
		settle_set_reason(e, spec->reason);
	settle_entry(e, session_settle_cause(how), spec->ms);
}

/* Apart, so that a silent ack needs no frame for it. */
static __attribute__((noinline)) void
settle_otherwise(struct entry *e, const struct settle_spec *spec, struct reply *r)
{
	if (spec->how == SETTLE_ACK) {
		lease_progress(e->lease, e->tag);
		settle_remove(e, FATE_ACKED, &r->waiter);
	} else if (spec->how == SETTLE_TOUCH) {
		touch(e, spec->ms);
	} else {
		give_back(e, spec);
	}
}

/* An ack, and nobody hears of it: neither a trace nor a script. */
static bool is_silent_ack(const struct settle_job *job)
{
	const struct broker *b = job->channel->session->broker;

	return job->spec.how == SETTLE_ACK &&
	       !step_is_followed(&b->followers, STEP_ACKED) &&
	       !broker_has_hook(b, SCRIPT_SETTLED);
}

static void settle_held(struct entry *e, struct settle_job *job, bool is_silent)
{
	if (!is_silent) {
		settle_otherwise(e, &job->spec, job->reply);
		return;
	}
	fate_count_ack(entry_queue(e));
	lease_progress(e->lease, e->tag);
	channel_release(e);
	shard_remove(e, &job->reply->waiter);
}

static uint64_t give_back_records(struct run *run, const struct tag_range *tags)
{
	uint64_t end = run->first_tag + run->count;
	uint64_t count = (tags->last < end ? tags->last + 1 : end) - tags->first;

	lease_give_back(run->lease);
	group_settle_return(run, tags->first, count, FATE_REQUEUED);
	return count;
}

/* Return the messages that go back at once, or the first, which fails. */
static uint64_t give_back_run(struct run *run, const struct tag_range *tags,
			      const struct settle_spec *spec)
{
	bool is_requeue = spec->how == SETTLE_REQUEUE || spec->how == SETTLE_RETURN;

	if (spec->reason.len > 0)
		run = group_settle_set_reason(run, tags->first,
					      is_requeue ? tags->last : tags->first,
					      spec->reason);
	if (is_requeue)
		return give_back_records(run, tags);
	lease_progress(run->lease, tags->first);
	group_settle_fail(run, tags->first, session_settle_cause(spec->how), spec->ms);
	return 1;
}

/* Of the messages of a run those with these tags: all at once, or else the first. */
static uint64_t settle_run(struct run *run, const struct tag_range *tags,
			   const struct settle_spec *spec)
{
	if (spec->how == SETTLE_TOUCH)
		return group_settle_touch(run, tags->first, tags->last, spec->ms);
	if (spec->how != SETTLE_ACK)
		return give_back_run(run, tags, spec);
	lease_progress(run->lease, tags->first);
	return group_settle_ack(run, tags->first, tags->last);
}

/* Settle the range's records of topics. False: the slice is spent; it goes on at
 * job->first. */
static bool settle_runs(struct settle_job *job, const struct tag_range *range)
{
	struct run_tag_tree *runs = &job->channel->holder.runs;
	struct pace *pace = &job->channel->session->broker->pace;
	struct tag_range left = { job->first ? job->first : range->first, range->last };
	uint64_t count;
	struct run *run;

	while ((run = run_from_tag(runs, left.first)) != NULL &&
	       run->first_tag <= left.last) {
		if (left.first < run->first_tag)
			left.first = run->first_tag;
		count = settle_run(run, &left, &job->spec);
		left.first += count;
		job->count += count;
		job->first = left.first;
		if (pace_is_spent(pace, false))
			return false;
	}
	return true;
}

/* Is all settled? Otherwise it goes on at range `at`, tag `first`. */
static bool settle_entries(struct settle_job *job)
{
	const struct settle_spec *spec = &job->spec;
	struct held *held = &job->channel->held;
	struct pace *pace = &job->channel->session->broker->pace;
	uint64_t first = job->first, count = job->count;
	size_t at = job->at;
	bool is_silent = is_silent_ack(job), is_spent = false;

	for (; at < spec->count; at++, first = 0) {
		const struct tag_range *range = &spec->ranges[at];
		struct entry *e = held_next(held, first ? first : range->first);

		while (e && e->tag <= range->last) {
			first = e->tag + 1;
			settle_held(e, job, is_silent);
			count++;
			is_spent = pace_is_spent(pace, false);
			if (is_spent)
				break;
			e = held_next(held, first);
		}
		if (is_spent)
			break;
	}
	job->first = first;
	job->count = count;
	job->at = at;
	return !is_spent;
}

/* First what it names of queues, then of topics. */
static bool settle_some(struct settle_job *job)
{
	if (!job->has_settled_entries) {
		if (job->channel->held.count > 0 && !settle_entries(job))
			return false;
		job->has_settled_entries = true;
		job->first = job->at = 0;
	}
	if (RB_EMPTY(&job->channel->holder.runs))
		return true;
	for (; job->at < job->spec.count; job->at++, job->first = 0)
		if (!settle_runs(job, &job->spec.ranges[job->at]))
			return false;
	return true;
}

/* An ACK that names something that the channel has lost. */
static bool is_late(const struct settle_job *job)
{
	struct channel *ch = job->channel;

	if (job->spec.how != SETTLE_ACK || ch->lapsed.count == 0)
		return false;
	for (size_t i = 0; i < job->spec.count; i++)
		if (late_first(ch, &job->spec.ranges[i]))
			return true;
	return false;
}

static void answer(const struct settle_job *job)
{
	if (is_late(job))
		ack_late(job->channel, &job->spec, job->count, job->reply);
	else
		reply_count(job->reply, job->count);
}

void session_settle_own(struct settle_spec *spec)
{
	size_t size = spec->count * sizeof(*spec->ranges);
	struct tag_range *ranges = mem_alloc(size + spec->reason.len);
	char *reason = (char *)(ranges + spec->count);

	memcpy(ranges, spec->ranges, size);
	if (spec->reason.len > 0)
		memcpy(reason, spec->reason.data, spec->reason.len);
	spec->ranges = ranges;
	spec->reason.data = reason;
}

static void keep(const struct settle_job *job)
{
	struct session *s = job->channel->session;
	struct settle_job *kept = mem_alloc(sizeof(*kept));

	*kept = *job;
	session_settle_own(&kept->spec);
	s->settling = kept;
	TAILQ_INSERT_TAIL(&s->service->settling, kept, link);
}

int session_settle(struct channel *ch, const struct settle_spec *spec, struct reply *r,
		   struct error *err)
{
	struct settle_job job = { .channel = ch, .spec = *spec, .reply = r };

	if (!RB_EMPTY(&ch->holder.runs) && check_topics(ch, spec, err) < 0)
		return err->code;
	if ((spec->transaction || ch->transaction) && spec->how != SETTLE_TOUCH)
		return session_transaction_settle(spec->transaction ? spec->transaction
								    : ch->transaction,
						  ch, spec, r, err);
	/* Checked first: an error changes nothing. */
	for (size_t i = 0; i < spec->count; i++)
		if (check_range(ch, &spec->ranges[i], spec->how == SETTLE_ACK, err) < 0)
			return err->code;
	if (settle_some(&job))
		answer(&job);
	else
		keep(&job);
	return TIDE_OK;
}

static void finish(struct session *s, struct settle_job *job)
{
	TAILQ_REMOVE(&s->service->settling, job, link);
	s->settling = NULL;
	answer(job);
	mem_free((struct tag_range *)job->spec.ranges);
	mem_free(job);
}

void session_settle_turn(struct service *service)
{
	struct settle_job *job = TAILQ_FIRST(&service->settling);

	/* One a turn, so that all get the same share. */
	if (!job)
		return;
	if (!settle_some(job)) {
		TAILQ_REMOVE(&service->settling, job, link);
		TAILQ_INSERT_TAIL(&service->settling, job, link);
		return;
	}
	struct session *s = job->channel->session;
	finish(s, job);
	s->ops->on_progress(s->ctx);
}

void session_settle_cancel(struct session *s)
{
	if (s->settling)
		finish(s, s->settling);
}
