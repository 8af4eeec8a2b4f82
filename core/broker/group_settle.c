#include "group_settle.h"

#include "base/container.h"
#include "base/mem.h"
#include "broker.h"
#include "dead_letter.h"
#include "host/log.h"
#include "move.h"
#include "queue.h"

/* Later than any time: its copy is on its way. */
#define NEVER_MS (INT64_MAX / 4)

/* The log says once in a while that messages are given up. */
#define GIVEN_UP_LOG_MS 60000

static struct group_claim *claim_of(const struct run *run)
{
	return container_of(run->claim, struct group_claim, claim);
}

static struct queue *queue_of(const struct group_claim *gc)
{
	return gc->group->topic->queue;
}

static struct run_tag_tree *tags_of(const struct run *run)
{
	const struct lease *l = run->lease;

	return &l->holder->runs;
}

static void relink(void *ctx, struct run *left)
{
	run_add(tags_of(left), left);
}

/* The claim has changed; it may be freed by the call. */
static void settled(struct group_claim *gc, uint64_t committed)
{
	if (gc->claim.committed != committed)
		group_commit_mark(gc);
	if (gc->is_far_ahead &&
	    gc->claim.reached - gc->claim.committed < GROUP_AHEAD_MAX) {
		gc->is_far_ahead = false;
		group_wake(gc);
	}
	group_check(gc);
}

/* The part of a run that a range of tags covers, as offsets. */
struct part {
	uint64_t first, count;
};

static struct part part_of(const struct run *run, uint64_t first, uint64_t last)
{
	uint64_t end = run->first_tag + run->count - 1;

	if (first < run->first_tag)
		first = run->first_tag;
	if (last > end)
		last = end;
	return (struct part){ run->first + (first - run->first_tag), last - first + 1 };
}

static struct record_place place_of(const struct group_claim *gc, uint64_t offset)
{
	return (struct record_place){ queue_of(gc), gc->group->name, gc->index, offset };
}

static void tell_acked(const struct group_claim *gc, const struct part *part)
{
	const struct record_place first = place_of(gc, part->first);

	STEP_TELL(&group_broker(gc->group)->followers, STEP_ACKED, .place = &first,
		  .count = part->count);
}

static void tell_failed(const struct group_claim *gc, uint64_t offset,
			const struct fate *fate)
{
	const struct record_place at = place_of(gc, offset);

	STEP_TELL(&group_broker(gc->group)->followers, STEP_RETURNED, .place = &at,
		  .fate = fate);
}

uint64_t group_settle_touch(struct run *run, uint64_t first, uint64_t last, int64_t ms)
{
	const struct part part = part_of(run, first, last);
	struct group_claim *gc = claim_of(run);
	const struct queue *q = queue_of(gc);
	run_remove(tags_of(run), run);
	run = claim_isolate(&gc->claim, run, part.first, part.count, relink, NULL);
	run->lease_ms = queue_limit_lease(q, ms ? ms : run->lease_ms);
	run_add(tags_of(run), run);
	lease_touch(run->lease, run->first_tag, run->lease_ms);
	return part.count;
}

struct run *group_settle_set_reason(struct run *run, uint64_t first, uint64_t last,
				    struct slice text)
{
	const struct part part = part_of(run, first, last);

	run_remove(tags_of(run), run);
	run = claim_isolate(run->claim, run, part.first, part.count, relink, NULL);
	run_set_reason(run, msg_cut_reason(text));
	run_add(tags_of(run), run);
	return run;
}

/* ---- what is settled later -----------------------------------------------------------
 */

/* A dead letter is durable: its message is settled. */
static void settle_died(struct group_claim *gc, uint64_t offset)
{
	uint64_t committed = gc->claim.committed;
	struct run *run = claim_find(&gc->claim, offset);

	/* A record that is no longer kept has been settled. */
	if (run && run->first == offset && run->state == RUN_RETURNED)
		claim_give_up(&gc->claim, run);
	group_wake(gc);
	settled(gc, committed);
}

/* A message of a topic that is settled when what it leaves is durable: the
 * copy of one that has failed for good, for its target; or what scripts of settled/
 * publish.
 *
 * Its claim keeps it as one that comes again at no time, until that is so. A dead letter
 * that nobody takes is published again 5 s later. */

#define AGAIN_MS 5000
/* All of them are tried again, which may be many: the log has one line in a while. */
#define REFUSED_LOG_MS 60000

struct group_death {
	TAILQ_ENTRY(group_death) link;
	struct waiter waiter;
	struct group_claim *gc; /* NULL: it is gone */
	struct broker *broker;
	uint64_t offset;
	struct msg *copy;       /* the dead letter; NULL: what scripts publish */
	struct heap_node again; /* in group_env.deaths */
};

/* No two are the same: the claim would make one run of neighbours. */
static int64_t never_again(struct broker *b)
{
	return NEVER_MS + (int64_t)++b->groups.death_count;
}

static void destroy_death(struct group_death *d)
{
	if (d->gc)
		TAILQ_REMOVE(&d->gc->dying, d, link);
	heap_remove(&d->broker->groups.deaths, &d->again);
	msg_unref(d->copy);
	mem_free(d);
}

static void on_refused(struct group_death *d, const char *text)
{
	const struct queue *q = d->gc->group->topic->queue;

	if (log_is_due(&d->broker->groups.death_logged_ms, d->broker->mono_ms,
		       REFUSED_LOG_MS))
		log_warn("topic '%s' of vhost '%s': dead-lettering: %s; trying again "
			 "every 5 s",
			 q->name, q->vhost->name, text);
	heap_set(&d->broker->groups.deaths, &d->again, d->broker->mono_ms + AGAIN_MS);
}

static void on_published(struct waiter *w)
{
	struct group_death *d = container_of(w, struct group_death, waiter);
	struct group_claim *gc = d->gc;
	uint64_t offset = d->offset;
	bool is_over;

	if (gc && d->copy && w->status < 0) {
		on_refused(d, w->text ? w->text : error_text(w->status));
		return;
	}
	/* At the end nothing is settled that is not durable. */
	is_over = !d->copy && w->status == TIDE_ESHUTDOWN;
	if (gc && d->copy)
		dead_letter_count(gc->group->topic->queue);
	destroy_death(d);
	if (gc && !is_over)
		settle_died(gc, offset);
}

static void publish_death(struct group_death *d)
{
	struct error err;
	int rc;

	waiter_init(&d->waiter, on_published);
	rc = move_publish(d->gc->group->topic->queue->vhost, d->copy, &d->waiter, &err);
	waiter_done(&d->waiter, rc, rc < 0 ? err.text : NULL);
}

static struct group_death *add_death(struct group_claim *gc, uint64_t offset)
{
	struct group_death *d = mem_zalloc(sizeof(*d));

	d->gc = gc;
	d->broker = group_broker(gc->group);
	d->offset = offset;
	TAILQ_INSERT_TAIL(&gc->dying, d, link);
	return d;
}

/* Publish the copy, which is taken, for the message at that offset. */
static void start_death_take(struct group_claim *gc, uint64_t offset, struct msg *copy)
{
	struct group_death *d = add_death(gc, offset);

	d->copy = copy;
	publish_death(d);
}

/* Likewise what scripts publish; what nobody takes is lost. */
static void wait_for_copies_take(struct group_claim *gc, uint64_t offset,
				 struct draft_copies *copies)
{
	struct group_death *d = add_death(gc, offset);

	waiter_init(&d->waiter, on_published);
	move_copies_publish_take(gc->group->topic->queue, copies, &d->waiter);
	waiter_done(&d->waiter, TIDE_OK, NULL);
}

/* The claim goes, or goes on elsewhere: copies that are on their way are of nobody. */
static void forget_deaths(struct group_claim *gc)
{
	struct group_death *d;

	while ((d = TAILQ_FIRST(&gc->dying)) != NULL) {
		if (heap_has(&d->again)) {
			destroy_death(d);
			continue;
		}
		TAILQ_REMOVE(&gc->dying, d, link);
		d->gc = NULL;
	}
}

/* ---- failures ---------------------------------------------------------------------- */

/* A message that has failed, while it is decided about; or one that is acknowledged. */
struct failed {
	struct group_claim *gc;
	struct run *run;
	uint64_t offset;
	struct record_reader reader;
	struct record record;
	bool is_read;
};

static void read_message(struct failed *f)
{
	if (!f->run->batch)
		return;
	record_read(&f->reader, f->run->batch);
	record_skip(&f->reader, f->offset);
	f->is_read = record_next(&f->reader, &f->record) && f->record.offset == f->offset;
	if (f->is_read && f->run->reason.len > 0)
		record_add_reason(&f->record, f->run->reason, f->reader.headers);
}

/* Readers without a group settle nothing. */
static bool is_told(const struct group_claim *gc)
{
	return gc->group->name && fate_is_told(queue_of(gc));
}

static struct fate_subject subject_of(const struct failed *f)
{
	const struct topic_group *g = f->gc->group;

	return (struct fate_subject){
		.queue = queue_of(f->gc),
		.id = f->is_read ? f->record.msg.id : 0,
		.msg = f->is_read ? &f->record.msg : NULL,
		.is_view = true,
		.failures = f->run->failures,
		.deliveries = f->run->deliveries + 1,
		.reason_text = f->run->reason,
		.now_ms = group_broker(g)->mono_ms,
		.given_ms = f->run->given_ms,
		.has_place = true,
		.group = { g->name, g->name_len },
		.partition = f->gc->index,
		.offset = f->offset,
	};
}

/* The scripts of settled/. */
static void tell_scripts(const struct failed *f, const struct fate *fate,
			 struct settled_pass *p)
{
	const struct fate_subject subject = subject_of(f);

	p->copies.count = 0;
	if (f->is_read && is_told(f->gc))
		fate_tell(&subject, fate, f->run->lease, p);
}

static void count_given_up(struct group_claim *gc, uint64_t offset, const char *reason)
{
	struct topic_group *g = gc->group;
	const struct broker *b = group_broker(g);

	g->given_up++;
	if (!log_is_due(&g->given_up_logged_ms, b->mono_ms, GIVEN_UP_LOG_MS))
		return;
	log_warn("topic '%s' of vhost '%s': %s%s%s has given up offset %llu of "
		 "partition %u (%s), and %llu messages so far; they are still in the "
		 "log",
		 queue_of(gc)->name, queue_of(gc)->vhost->name, g->name ? "group '" : "",
		 g->name ? g->name : "a reader", g->name ? "'" : "",
		 (unsigned long long)offset, gc->index, reason,
		 (unsigned long long)g->given_up);
}

/* Soon given out again, it is read from where it lies; later from the log. */
static void come_back(struct failed *f, const struct fate *fate)
{
	const struct claim_return how = { f->offset, 1, fate->due_ms, CLAIM_FAILED };
	struct run *r = claim_return(&f->gc->claim, f->run, &how, relink, NULL);

	if (fate->due_ms > 0) {
		record_batch_unref(r->batch);
		r->batch = NULL;
	} else {
		group_wake(f->gc);
	}
}

/* The copy of what is to be dead-lettered; NULL: it is given up. */
static struct msg *make_copy(struct failed *f, const struct fate *fate)
{
	const struct dead_letter_facts facts = { fate->reason, fate->rule,
						 f->run->failures + 1, fate->extra };

	if (fate->action != RETRY_DEAD_LETTER || !f->is_read)
		return NULL;
	return dead_letter_make(queue_of(f->gc), &f->record.msg, &facts);
}

/* Settle the record when what the scripts publish is durable. The claim may be freed
 * by the call. */
static void end(struct failed *f, struct draft_copies *copies_take)
{
	struct group_claim *gc = f->gc;
	uint64_t committed = gc->claim.committed;
	struct fate later = { .action = RETRY_AFTER };

	if (copies_take->count == 0) {
		claim_settle(&gc->claim, f->run, f->offset, 1, relink, NULL);
		settled(gc, committed);
		return;
	}
	later.due_ms = never_again(group_broker(gc->group));
	come_back(f, &later);
	wait_for_copies_take(gc, f->offset, copies_take);
}

static void carry_out(struct failed *f, struct fate *fate,
		      struct draft_copies *copies_take)
{
	struct group_claim *gc = f->gc;
	struct msg *copy = make_copy(f, fate);
	uint64_t committed;

	if (copy || fate->action == RETRY_AFTER)
		move_copies_publish_take(queue_of(gc), copies_take, NULL);
	if (copy) {
		fate->due_ms = never_again(group_broker(gc->group));
		come_back(f, fate);
		/* The publish may end at once, and with it the claim. */
		start_death_take(gc, f->offset, copy);
		return;
	}
	if (fate->action == RETRY_AFTER) {
		committed = gc->claim.committed;
		come_back(f, fate);
		settled(gc, committed);
		return;
	}
	if (fate->action != RETRY_DROP)
		count_given_up(gc, f->offset, fate->reason);
	end(f, copies_take);
}

void group_settle_fail(struct run *run, uint64_t tag, enum fate_cause cause,
		       int64_t delay_ms)
{
	struct group_claim *gc = claim_of(run);
	struct queue *q = queue_of(gc);
	struct lease *l = run->lease;
	struct failed f = { .gc = gc,
			    .run = run,
			    .offset = run->first + (tag - run->first_tag) };
	struct record_batch *batch = run->batch ? record_batch_ref(run->batch) : NULL;
	struct fate_subject subject;
	struct settled_pass pass;
	struct fate fate;

	read_message(&f);
	subject = subject_of(&f);
	fate_count_cause(q, cause, 1);
	fate = fate_decide(&subject, cause, delay_ms);
	if (fate.due_ms <= subject.now_ms)
		fate.due_ms = 0;
	tell_failed(gc, f.offset, &fate);
	tell_scripts(&f, &fate, &pass);
	fate_count(q, &fate);
	run_remove(tags_of(run), run);
	if (fate.extra)
		move_copies_publish_take(q, &fate.extra->copies, NULL);
	carry_out(&f, &fate, &pass.copies);
	strategy_extra_unref(fate.extra);
	lease_remove_records(l, 1);
	record_batch_unref(batch);
}

/* All at once, which no script is told of. */
static uint64_t ack_part(struct run *run, const struct part *part)
{
	struct group_claim *gc = claim_of(run);
	struct queue *q = queue_of(gc);
	struct lease *l = run->lease;
	uint64_t committed = gc->claim.committed;

	if (step_is_followed(&q->vhost->broker->followers, STEP_ACKED))
		tell_acked(gc, part);
	run_remove(tags_of(run), run);
	claim_settle(&gc->claim, run, part->first, part->count, relink, NULL);
	fate_count_cause(q, FATE_ACKED, part->count);
	settled(gc, committed);
	lease_remove_records(l, part->count);
	return part->count;
}

/* Of the part the first, which the scripts of settled/ are told of. */
static uint64_t ack_first(struct run *run, const struct part *part)
{
	const struct part one = { part->first, 1 };
	struct group_claim *gc = claim_of(run);
	struct queue *q = queue_of(gc);
	struct lease *l = run->lease;
	struct record_batch *batch = run->batch ? record_batch_ref(run->batch) : NULL;
	const struct fate fate = { .cause = FATE_ACKED, .action = RETRY_DROP };
	struct failed f = { .gc = gc, .run = run, .offset = part->first };
	struct settled_pass pass;

	read_message(&f);
	tell_scripts(&f, &fate, &pass);
	tell_acked(gc, &one);
	run_remove(tags_of(run), run);
	fate_count_cause(q, FATE_ACKED, 1);
	end(&f, &pass.copies);
	lease_remove_records(l, 1);
	record_batch_unref(batch);
	return 1;
}

uint64_t group_settle_ack(struct run *run, uint64_t first, uint64_t last)
{
	const struct part part = part_of(run, first, last);

	return is_told(claim_of(run)) ? ack_first(run, &part) : ack_part(run, &part);
}

const struct queue *group_settle_queue(const struct run *run)
{
	return queue_of(claim_of(run));
}

bool group_settle_comes_again(const struct run *run)
{
	return claim_of(run)->group->name != NULL;
}

void group_settle_return(struct run *run, uint64_t first_tag, uint64_t count,
			 enum fate_cause cause)
{
	const struct claim_return how = { run->first + (first_tag - run->first_tag),
					  count, 0, CLAIM_GIVEN_BACK };
	struct group_claim *gc = claim_of(run);
	struct lease *l = run->lease;

	fate_count_cause(queue_of(gc), cause, count);
	queue_of(gc)->counters.returned += count;
	run_remove(tags_of(run), run);
	claim_return(&gc->claim, run, &how, relink, NULL);
	group_wake(gc);
	group_check(gc);
	lease_remove_records(l, count);
}

void group_settle_lapse(struct run *run, uint64_t first_tag, uint64_t count)
{
	const struct group_claim *gc = claim_of(run);
	const struct lease *l = run->lease;
	const struct lapse what = { .tag = first_tag,
				    .count = count,
				    .queue = queue_of(gc),
				    .claim = gc,
				    .offset = run->first + (first_tag - run->first_tag) };

	l->holder->on_lapse(l->holder, &what);
}

/* The message of a returned run: what lies before it in the run stays. */
static void settle_returned(struct group_claim *gc, struct run *run, uint64_t offset)
{
	uint64_t committed = gc->claim.committed;
	struct queue *q = queue_of(gc);

	claim_settle_returned(&gc->claim, run, offset);
	fate_count_cause(q, FATE_ACKED, 1);
	group_wake(gc);
	settled(gc, committed);
}

bool group_settle_ack_late(struct group_claim *gc, uint64_t offset,
			   const struct holder *h, uint64_t *tag)
{
	struct run *run = claim_find(&gc->claim, offset);
	struct lease *l = run && run->state == RUN_HELD ? run->lease : NULL;

	*tag = 0;
	if (l && l->holder == h) {
		*tag = run->first_tag + (offset - run->first);
		lease_progress(l, *tag);
		group_settle_ack(run, *tag, *tag);
		return true;
	}
	/* A dead letter of it may be under way. */
	if (!run || run->state != RUN_RETURNED || run->due_ms >= NEVER_MS)
		return false;
	settle_returned(gc, run, offset);
	return true;
}

void group_settle_forget(struct group_claim *gc)
{
	struct run *run;

	forget_deaths(gc);
	while ((run = claim_first_held(&gc->claim)) != NULL) {
		struct lease *l = run->lease;
		uint64_t count = run->count;

		run_remove(tags_of(run), run);
		claim_settle(&gc->claim, run, run->first, count, relink, NULL);
		lease_remove_records(l, count);
	}
}

/* ---- time -------------------------------------------------------------------------- */

/* Publish again what was refused. */
static void publish_deaths(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->groups.deaths)) != NULL && n->key <= b->mono_ms) {
		heap_remove(&b->groups.deaths, n);
		publish_death(container_of(n, struct group_death, again));
		if (pace_is_spent(&b->pace, true))
			return;
	}
}

void group_settle_turn(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->groups.runs)) != NULL && n->key <= b->mono_ms) {
		struct run *run = container_of(n, struct run, timer);

		claim_due(run);
		group_wake(claim_of(run));
		if (pace_is_spent(&b->pace, false))
			break;
	}
	publish_deaths(b);
}

int64_t group_settle_due_ms(const struct broker *b)
{
	const struct heap_node *n = heap_min(&b->groups.runs);
	int64_t due_ms = n && n->key < NEVER_MS ? b->now_ms + (n->key - b->mono_ms) : 0;

	n = heap_min(&b->groups.deaths);
	return n ? heap_earlier(due_ms, b->now_ms + (n->key - b->mono_ms)) : due_ms;
}
