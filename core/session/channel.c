#include <inttypes.h>
#include <stdio.h>

#include "channel.h"
#include "access/network.h"
#include "base/mem.h"
#include "broker/group_settle.h"
#include "broker/group.h"
#include "broker/settle.h"
#include "rules/engine/deliver.h"
#include "service_events.h"
#include "session_private.h"
#include "base/duration.h"
#include "broker/queue.h"
#include "host/log.h"

/* Messages of a partition that are no longer kept, from `from` to before `to`. */
struct channel_gap {
	unsigned partition;
	uint64_t from, to;
};

/* Tell the reader of a partition that it goes on behind messages that are no longer kept.
 */
static void tell_skipped(struct channel *ch, const char *sid,
			 const struct channel_gap *gap)
{
	const struct session *s = ch->session;
	char words[NAME_LEN_MAX + 64];

	snprintf(words, sizeof(words), "%s %u %" PRIu64 " %" PRIu64, sid, gap->partition,
		 gap->from, gap->to);
	s->ops->on_event(s->ctx, ch->number, "skipped", words);
}

static bool can_take(const struct consumer *c)
{
	const struct subscription *sub = subscription_of(c);
	const struct session *s = sub->channel->session;

	return !sub->confirm && s->ops->can_take(s->ctx);
}

static struct slice sid_of(const struct subscription *sub)
{
	return (struct slice){ sub->sid, sub->hh.keylen };
}

static void on_deliver(struct consumer *c, struct entry *e, struct msg *head,
		       bool is_redelivered)
{
	struct subscription *sub = subscription_of(c);
	struct channel *ch = sub->channel;
	const struct session *s = ch->session;
	struct delivery d = channel_hand_out(ch, c, e, head, is_redelivered);

	s->ops->on_deliver(s->ctx, ch->number, sid_of(sub), &d);
}

static void on_record(struct consumer *c, const struct record_delivery *r)
{
	struct subscription *sub = subscription_of(c);
	const struct session *s = sub->channel->session;
	const struct delivery d = channel_delivery(r);

	s->ops->on_deliver(s->ctx, sub->channel->number, sid_of(sub), &d);
}

static void on_skipped(struct consumer *c, unsigned partition, uint64_t from, uint64_t to)
{
	struct subscription *sub = subscription_of(c);

	tell_skipped(sub->channel, sub->sid,
		     &(struct channel_gap){ partition, from, to });
}

static void on_cancel(struct consumer *c)
{
	struct subscription *sub = subscription_of(c);
	const struct session *s = sub->channel->session;
	char words[2 * NAME_LEN_MAX + 32];

	snprintf(words, sizeof(words), "%s %s-deleted", sub->sid,
		 definition_kind(c->queue->definition.table));
	s->ops->on_event(s->ctx, sub->channel->number, "cancelled", words);
	subscription_destroy(sub);
}

void subscription_tell_active(struct subscription *sub)
{
	const struct session *s = sub->channel->session;
	const struct consumer *c = &sub->consumer;

	if (!c->queue || !c->queue->config.is_single_active || sub->confirm ||
	    sub->is_told_active == c->is_active || !s->ops->can_take(s->ctx))
		return;
	sub->is_told_active = c->is_active;
	s->ops->on_event(s->ctx, sub->channel->number,
			 c->is_active ? "active" : "relieved", sub->sid);
}

void subscription_tell_assigned(struct subscription *sub)
{
	const struct session *s = sub->channel->session;
	struct member *m = sub->consumer.member;
	char partitions[MEMBER_PARTITIONS_MAX];
	char words[NAME_LEN_MAX + MEMBER_PARTITIONS_MAX + 2];

	if (!m || !m->is_changed || !m->group->name || sub->confirm ||
	    !s->ops->can_take(s->ctx))
		return;
	m->is_changed = false;
	member_format(m, partitions);
	snprintf(words, sizeof(words), "%s %s", sub->sid, partitions);
	s->ops->on_event(s->ctx, sub->channel->number, "assigned", words);
}

void subscription_tell_lease(struct subscription *sub)
{
	const struct session *s = sub->channel->session;
	const struct consumer *c = &sub->consumer;
	char lease[DURATION_TEXT_MAX], words[NAME_LEN_MAX + DURATION_TEXT_MAX + 16];
	uint32_t lease_ms = c->queue ? queue_lease(c->queue, c->ack_timeout_ms) : 0;

	if (!c->queue || lease_ms == sub->told_lease_ms || c->is_auto_ack ||
	    sub->confirm || !s->ops->can_take(s->ctx))
		return;
	sub->told_lease_ms = lease_ms;
	duration_format(lease_ms, lease);
	snprintf(words, sizeof(words), "%s ack-timeout=%s", sub->sid, lease);
	s->ops->on_event(s->ctx, sub->channel->number, "updated", words);
}

static void on_updated(struct consumer *c)
{
	subscription_tell_lease(subscription_of(c));
}

static void on_assigned(struct consumer *c)
{
	subscription_tell_assigned(subscription_of(c));
}

static void on_lease(struct consumer *c, uint64_t tag, int64_t left_ms)
{
	const struct subscription *sub = subscription_of(c);
	const struct session *s = sub->channel->session;
	char words[NAME_LEN_MAX + 64];

	snprintf(words, sizeof(words), "%s %" PRIu64 " %" PRId64, sub->sid, tag, left_ms);
	s->ops->on_event(s->ctx, sub->channel->number, "lease", words);
}

static void on_active(struct consumer *c)
{
	subscription_tell_active(subscription_of(c));
}

static const struct consumer_ops ops = {
	.can_take = can_take,
	.on_deliver = on_deliver,
	.on_record = on_record,
	.on_assigned = on_assigned,
	.on_skipped = on_skipped,
	.on_active = on_active,
	.on_lease = on_lease,
	.on_updated = on_updated,
	.on_cancel = on_cancel,
};

struct subscription *subscription_create(struct channel *ch, struct slice sid)
{
	struct subscription *sub = mem_zalloc(sizeof(*sub));

	sub->channel = ch;
	sub->consumer.ops = &ops;
	lease_init(&sub->consumer.lease, ch->session->broker, &ch->holder,
		   &sub->consumer);
	TAILQ_INSERT_TAIL(&ch->subscriptions, sub, channel_link);
	sub->sid = mem_strndup(sid.data, sid.len);
	HASH_ADD_KEYPTR(hh, ch->by_sid, sub->sid, sid.len, sub);
	ch->session->subscription_count++;
	return sub;
}

static void release(struct subscription *sub)
{
	lease_deinit(&sub->consumer.lease);
	mem_free(sub->sid);
	mem_free(sub);
}

static void leave_queue(struct subscription *sub)
{
	service_events_consumer(sub, EVENT_CONSUMER_ENDED);
	if (sub->consumer.member)
		member_destroy(sub->consumer.member);
	consumer_remove(&sub->consumer);
}

void subscription_destroy(struct subscription *sub)
{
	struct channel *ch = sub->channel;

	leave_queue(sub);
	if (sub->confirm)
		sub->confirm->subscription = NULL;
	TAILQ_REMOVE(&ch->subscriptions, sub, channel_link);
	HASH_DEL(ch->by_sid, sub);
	ch->session->subscription_count--;
	sub->is_gone = true;
	if (sub->consumer.lease.count == 0)
		release(sub);
}

void subscription_confirmed(struct subscription *sub)
{
	sub->confirm = NULL;
	subscription_tell_active(sub);
	subscription_tell_assigned(sub);
	subscription_tell_lease(sub);
	consumer_update(&sub->consumer);
}

static void on_settled(struct consumer *c, uint32_t count)
{
	struct subscription *sub = subscription_of(c);

	consumer_settled(c, count);
	if (sub->is_gone && c->lease.count == 0)
		release(sub);
}

/* Where the next message goes. The messages leave together, with the reply. */
static struct delivery *next_delivery(struct fetch *f)
{
	if (!f->deliveries)
		f->deliveries = mem_alloc(f->getter.max * sizeof(*f->deliveries));
	return &f->deliveries[f->getter.count];
}

static void fetch_on_deliver(struct consumer *c, struct entry *e, struct msg *head,
			     bool is_redelivered)
{
	struct fetch *f = fetch_of(c->getter);

	struct delivery *d = next_delivery(f);

	*d = channel_hand_out(f->channel, c, e, head, is_redelivered);
	msg_ref(e->msg);
	if (head)
		msg_ref(head);
}

static void fetch_on_record(struct consumer *c, const struct record_delivery *r)
{
	struct fetch *f = fetch_of(c->getter);
	struct msg *m = msg_create(&r->record->msg);

	if (!m) {
		log_warn("topic '%s': out of memory for a message of %zu bytes; a GET "
			 "leaves it out",
			 c->queue->name, r->record->msg.payload_len);
		return;
	}
	*next_delivery(f) = channel_delivery(r);
	next_delivery(f)->msg = m;
	f->getter.count++;
}

/* A reader without a group sees the gap by the offsets. */
static void fetch_on_skipped(struct consumer *c, unsigned partition, uint64_t from,
			     uint64_t to)
{
	if (c->getter->group->name)
		tell_skipped(fetch_of(c->getter)->channel, "-",
			     &(struct channel_gap){ partition, from, to });
}

void fetch_drop(struct fetch *f)
{
	group_pull_leave(&f->getter);
	getter_remove(&f->getter);
	if (f->getter.lease)
		lease_close(f->getter.lease);
	TAILQ_REMOVE(&f->channel->fetches, f, channel_link);
	f->channel->session->reads -= f->is_read;
	msg_match_deinit(&f->match);
	mem_free(f);
}

static void give_answer(struct fetch *f)
{
	struct reply *r = f->reply;
	struct delivery *deliveries = f->deliveries;
	uint32_t count = f->getter.count;

	fetch_drop(f);
	reply_messages_take(r, deliveries, count);
}

void fetch_refuse(struct fetch *f, const struct error *why)
{
	struct reply *r = f->reply;

	if (f->getter.count > 0) {
		give_answer(f);
		return;
	}
	fetch_drop(f);
	reply_error(r, why);
}

static void on_answer(struct getter *g)
{
	struct fetch *f = fetch_of(g);
	const struct error *failure = msg_match_error(&f->match);
	struct error why;

	if (!failure) {
		give_answer(f);
		return;
	}
	why = *failure;
	fetch_refuse(f, &why);
}

static void fetch_on_cancel(struct consumer *c)
{
	struct error err;

	error_set(&err, TIDE_ENOTFOUND, "%s '%s' was deleted",
		  definition_kind(c->queue->definition.table), c->queue->name);
	fetch_refuse(fetch_of(c->getter), &err);
}

static const struct consumer_ops fetch_ops = {
	.on_deliver = fetch_on_deliver,
	.on_record = fetch_on_record,
	.on_skipped = fetch_on_skipped,
	.on_cancel = fetch_on_cancel,
};

struct fetch *fetch_create(struct channel *ch, unsigned consumer_count, struct reply *r)
{
	struct fetch *f =
		mem_zalloc(sizeof(*f) + consumer_count * sizeof(struct consumer));

	f->channel = ch;
	f->reply = r;
	f->getter.broker = ch->session->broker;
	f->getter.on_answer = on_answer;
	f->getter.consumers = f->consumers;
	f->getter.consumer_count = consumer_count;
	for (unsigned i = 0; i < consumer_count; i++) {
		f->consumers[i].ops = &fetch_ops;
		f->consumers[i].getter = &f->getter;
		lease_init(&f->consumers[i].lease, ch->session->broker, &ch->holder,
			   &f->consumers[i]);
	}
	TAILQ_INSERT_TAIL(&ch->fetches, f, channel_link);
	return f;
}

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
	ch->holder.on_settled = on_settled;
	ch->holder.on_lapse = on_lapse;
	ch->holder.has_older = has_older;
	ch->holder.last_tag = &ch->held.last_tag;
	held_init(&ch->held);
	lapsed_init(&ch->lapsed);
	lock_holder_init(&ch->locks);
	credit_init(&ch->credit, s->broker, 0);
}

/* A commit under way has taken its messages from the channel. */
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

/* Return the messages of a channel. A session that leaves in order says by that that
 * its messages have not failed. Of the messages of a consumer whose connection broke,
 * only the first one given can be at fault: consumers work in order. */
void channel_return_held(struct channel *ch)
{
	const struct session *s = ch->session;
	bool is_punished = s->is_broken && !s->has_left && !s->broker->is_draining;
	struct held *h = &ch->held;
	struct entry *last;
	uint64_t tag;
	/* Messages that GETs took count as one consumer's. */
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
		leave_queue(sub);
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

void channel_forget(struct channel *ch)
{
	struct session *s = ch->session;

	reply_drop_all(ch);
	HASH_DEL(s->channels, ch);
	s->channel_count--;
	session_allowance_close(s);
	mem_free(ch);
}
