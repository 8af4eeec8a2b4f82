#include "channel.h"

#include <inttypes.h>
#include <stdio.h>

#include "access/network.h"
#include "base/mem.h"
#include "broker/group_settle.h"
#include "broker/group.h"
#include "broker/settle.h"
#include "rules/engine/deliver.h"
#include "session_private.h"

static void describe(const struct holder *h, const struct consumer *c,
		     struct consumer_view *out)
{
	const struct channel *ch = container_of(h, struct channel, holder);
	const struct session *s = ch->session;
	struct session_peer peer = { 0 };

	s->ops->facts(s->ctx, &peer);
	*out = (struct consumer_view){ .vhost = vhost_slice(s->vhost),
				       .user = { s->user, s->user_len },
				       .address = network_host(peer.address),
				       .protocol = peer.protocol,
				       .connection = s->number,
				       .channel = ch->number };
	if (s->name)
		out->name = slice_from(s->name);
	if (!c || c->getter)
		return;
	out->sid = subscription_of(c)->sid;
	out->unacked = c->lease.count;
	out->prefetch = c->prefetch;
}

/* Messages of one turn have the same time: then the channel and the tag decide. */
static bool is_older(const struct subscription *a, const struct lease *b)
{
	const struct lease *l = &a->consumer.lease;
	const struct channel *other = container_of(b->holder, struct channel, holder);
	int64_t given_ms, than_ms;

	if (l == b || !l->oldest)
		return false;
	given_ms = lease_given_ms(l);
	than_ms = lease_given_ms(b);
	if (given_ms != than_ms)
		return given_ms < than_ms;
	if (a->channel != other)
		return a->channel->number < other->number;
	return l->oldest < b->oldest;
}

static bool has_older(const struct lease *l)
{
	struct session *s = container_of(l->holder, struct channel, holder)->session;
	const struct channel *ch = NULL;
	const struct subscription *sub;

	while ((ch = session_next_channel(s, ch)) != NULL)
		TAILQ_FOREACH (sub, &ch->subscriptions, channel_link)
			if (is_older(sub, l))
				return true;
	return false;
}

static void on_lapse(struct holder *h, const struct lapse *what)
{
	lapsed_add(&container_of(h, struct channel, holder)->lapsed, what);
}

void channel_init(struct channel *ch, struct session *s, unsigned number)
{
	*ch = (struct channel){ .session = s, .number = number };
	STAILQ_INIT(&ch->replies);
	TAILQ_INIT(&ch->asides);
	TAILQ_INIT(&ch->subscriptions);
	TAILQ_INIT(&ch->fetches);
	ch->holder.on_release = channel_release;
	ch->holder.describe = describe;
	ch->holder.on_settled = subscription_settled;
	ch->holder.on_lapse = on_lapse;
	ch->holder.has_older = has_older;
	ch->holder.last_tag = &ch->held.last_tag;
	held_init(&ch->held);
	lapsed_init(&ch->lapsed);
	lock_holder_init(&ch->locks);
	credit_init(&ch->credit, s->broker, 0);
}

/* What a commit under way changes is no longer the channel's business. */
static void release_committing(struct held *h)
{
	struct entry *e = held_from(h, 0);

	while (e) {
		uint64_t tag = e->tag;

		if (e->flags & LIES_IN_COMMIT)
			channel_release(e);
		e = held_from(h, tag + 1);
	}
}

/* Has the consumer been charged with its failure? All GETs of a channel count as one. */
static bool *charge_of(struct lease *l, bool *is_get_charged)
{
	return l->consumer ? &l->is_charged : is_get_charged;
}

/* As channel_return_held, of topics. */
static void return_runs(struct channel *ch, bool is_punished)
{
	struct run_tag_tree *runs = &ch->holder.runs;
	struct run *run = is_punished ? run_from_tag(runs, 0) : NULL;
	bool is_get_charged = false;

	while (run) {
		bool *is_charged = charge_of(run->lease, &is_get_charged);
		uint64_t next = run->first_tag + run->count;

		if (!*is_charged && group_settle_comes_again(run)) {
			*is_charged = true;
			group_settle_fail(run, run->first_tag, FATE_GONE, 0);
		}
		run = run_from_tag(runs, next);
	}
	while ((run = run_from_tag(runs, 0)) != NULL)
		group_settle_return(run, run->first_tag, run->count, FATE_RETURNED);
}

/* Who leaves in order says by that that nothing has failed. Of what a consumer leaves
 * behind whose connection broke, only the message that it was given first can be the one
 * at fault: consumers work in order. */
void channel_return_held(struct channel *ch)
{
	const struct session *s = ch->session;
	bool is_punished = s->is_broken && !s->has_left && !s->broker->is_draining;
	struct held *h = &ch->held;
	struct entry *last;
	uint64_t tag;
	/* What GETs took counts as one consumer's. */
	bool is_get_charged = false;

	release_committing(h);
	for (struct entry *e = is_punished ? held_from(h, 0) : NULL; e;
	     e = held_from(h, tag + 1)) {
		bool *is_charged = charge_of(e->lease, &is_get_charged);

		tag = e->tag;
		if (*is_charged)
			continue;
		*is_charged = true;
		settle_entry(e, FATE_GONE, 0);
	}
	/* From the last to the first, so that each enters at the queue's front. */
	while ((last = held_last(h)) != NULL)
		settle_entry(last, FATE_RETURNED, 0);
	return_runs(ch, is_punished);
}

void channel_end(struct channel *ch)
{
	struct subscription *sub;
	struct fetch *f;

	session_transaction_end(ch);
	if (ch->trace)
		tracer_end_take(ch->trace, "closed");
	TAILQ_FOREACH (sub, &ch->subscriptions, channel_link)
		subscription_leave(sub);
	TAILQ_FOREACH (f, &ch->fetches, channel_link) {
		group_pull_leave(&f->getter);
		getter_remove(&f->getter);
	}
	channel_return_held(ch);
	while ((sub = TAILQ_FIRST(&ch->subscriptions)) != NULL)
		subscription_destroy(sub);
	while ((f = TAILQ_FIRST(&ch->fetches)) != NULL)
		f->getter.on_answer(&f->getter);
	held_deinit(&ch->held);
	lapsed_deinit(&ch->lapsed);
	lock_holder_end(&ch->locks);
	credit_deinit(&ch->credit);
}

void channel_deinit(struct channel *ch)
{
	reply_drop_all(ch);
	channel_end(ch);
}

struct subscription *channel_subscription(struct channel *ch, struct slice sid)
{
	struct subscription *sub;

	HASH_FIND(hh, ch->by_sid, sid.data, sid.len, sub);
	return sub;
}

void channel_write_holder(const struct entry *e, struct json *out)
{
	const struct channel *ch;
	int64_t until_ms = lease_until_unix_ms(e);

	if (!e->lease)
		return;
	ch = container_of(e->lease->holder, struct channel, holder);
	json_member_object(out, "holder");
	json_member_int(out, "connection", (int64_t)ch->session->number);
	json_member_int(out, "channel", ch->number);
	json_member_text(out, "sid",
			 e->lease->consumer ? subscription_of(e->lease->consumer)->sid
					    : "-");
	json_member_int(out, "tag", (int64_t)e->tag);
	json_member_int(out, "since", e->at_unix_ms);
	json_member_int(out, "lease_ms", e->lease_ms);
	if (until_ms)
		json_member_int(out, "until", until_ms);
	json_object_end(out);
}

void channel_release(struct entry *e)
{
	struct channel *ch = container_of(e->lease->holder, struct channel, holder);

	queue_use(entry_queue(e));
	held_remove(&ch->held, e->tag);
	lease_remove(e);
}

int channel_refuse_tag(const struct channel *ch, uint64_t tag, struct error *err)
{
	if (tag > ch->held.last_tag || tag == 0)
		return error_set(err, TIDE_ENOTFOUND,
				 "tag %" PRIu64 " was never given out on this channel",
				 tag);
	return error_set(err, TIDE_ELEASE,
			 "tag %" PRIu64
			 " is no longer held: it was settled, timed out or its queue "
			 "was deleted",
			 tag);
}

void channel_tell_skipped(struct channel *ch, const char *sid,
			  const struct channel_gap *gap)
{
	const struct session *s = ch->session;
	char words[NAME_LEN_MAX + 64];

	snprintf(words, sizeof(words), "%s %u %" PRIu64 " %" PRIu64, sid, gap->partition,
		 gap->from, gap->to);
	s->ops->on_event(s->ctx, ch->number, "skipped", words);
}

void channel_forget(struct channel *ch)
{
	struct session *s = ch->session;

	reply_drop_all(ch);
	HASH_DEL(s->channels, ch);
	s->channel_count--;
	session_allowance_close(s);
	mem_free(ch);
}
