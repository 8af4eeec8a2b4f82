/* The rights of a session's user have perhaps become fewer: what it has begun by those
 * that are gone ends. */
#include <stdio.h>

#include "base/mem.h"
#include "broker/group_settle.h"
#include "broker/settle.h"
#include "session_private.h"

/* The last queue that was asked about: most of what a channel holds is of one. */
struct read_check {
	struct session *session;
	const struct queue *queue;
	struct error denied; /* code < 0: it may not be read */
};

static bool may_read(struct read_check *r, const struct queue *q)
{
	enum subject_kind kind = q->topic ? SUBJECT_TOPIC : SUBJECT_QUEUE;

	if (r->queue != q)
		r->denied.code = session_access_check(r->session, USER_READ, kind,
						      queue_slice(q), &r->denied);
	r->queue = q;
	return r->denied.code == TIDE_OK;
}

static void cancel_subscriptions(struct channel *ch, struct read_check *r)
{
	const struct session *s = ch->session;
	struct subscription *sub, *next;
	char words[NAME_LEN_MAX + 16];

	for (sub = TAILQ_FIRST(&ch->subscriptions); sub; sub = next) {
		next = TAILQ_NEXT(sub, channel_link);
		if (!sub->consumer.queue || may_read(r, sub->consumer.queue))
			continue;
		snprintf(words, sizeof(words), "%s denied", sub->sid);
		s->ops->on_event(s->ctx, ch->number, "cancelled", words);
		subscription_destroy(sub);
	}
}

static bool may_wait(const struct fetch *f, struct read_check *r)
{
	for (unsigned i = 0; i < f->getter.consumer_count; i++)
		if (f->consumers[i].queue && !may_read(r, f->consumers[i].queue))
			return false;
	return true;
}

static void refuse_fetches(struct channel *ch, struct read_check *r)
{
	struct fetch *f, *next;

	for (f = TAILQ_FIRST(&ch->fetches); f; f = next) {
		next = TAILQ_NEXT(f, channel_link);
		if (!may_wait(f, r))
			fetch_refuse(f, &r->denied);
	}
}

/* Unpunished: its consumer is not at fault, and nor is the message. */
static void return_entries(struct channel *ch, struct read_check *r)
{
	uint64_t *tags = NULL;
	size_t count = 0;

	for (struct entry *e = held_from(&ch->held, 0); e;
	     e = held_from(&ch->held, e->tag + 1)) {
		if (e->flags & LIES_IN_COMMIT || may_read(r, entry_queue(e)))
			continue;
		if (!tags)
			tags = mem_alloc(ch->held.count * sizeof(*tags));
		tags[count++] = e->tag;
	}
	/* From the last to the first, so that each enters at the queue's front. */
	while (count > 0)
		settle_entry(held_from(&ch->held, tags[--count]), FATE_RETURNED, 0);
	mem_free(tags);
}

static void return_runs(struct channel *ch, struct read_check *r)
{
	struct run_tag_tree *runs = &ch->holder.runs;
	struct run *run = run_from_tag(runs, 0);

	while (run) {
		uint64_t next = run->first_tag + run->count;

		if (!may_read(r, group_settle_queue(run)))
			group_settle_return(run, run->first_tag, run->count,
					    FATE_RETURNED);
		run = run_from_tag(runs, next);
	}
}

static bool may_hold_lock(void *ctx, struct slice name, struct error *err)
{
	return session_access_check(ctx, USER_WRITE, SUBJECT_LOCK, name, err) == TIDE_OK;
}

static void recheck_channel(struct channel *ch, struct read_check *r)
{
	cancel_subscriptions(ch, r);
	refuse_fetches(ch, r);
	return_entries(ch, r);
	return_runs(ch, r);
	lock_holder_recheck(&ch->locks, may_hold_lock, ch->session);
}

void session_recheck(struct session *s)
{
	struct read_check reading = { .session = s };
	const struct user *user = s->subject.user;
	struct channel *ch, *next;
	char why[NAME_LEN_MAX + 64];

	s->exchange_version = 0;
	session_allowance_note(s);
	if (!user)
		return; /* it may do all, or was killed */
	if (user->is_deleted) {
		snprintf(why, sizeof(why), "denied user '%s' was deleted", user->name);
		s->ops->on_kill(s->ctx, why);
		return;
	}
	session_trace_recheck(s);
	recheck_channel(&s->zero, &reading);
	HASH_ITER (hh, s->channels, ch, next)
		recheck_channel(ch, &reading);
}
