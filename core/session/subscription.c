#include "subscription.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/duration.h"
#include "base/mem.h"
#include "broker/group.h"
#include "broker/queue.h"
#include "channel.h"
#include "session_private.h"

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

	channel_tell_skipped(sub->channel, sub->sid,
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

void subscription_leave(struct subscription *sub)
{
	if (sub->consumer.member)
		member_destroy(sub->consumer.member);
	consumer_remove(&sub->consumer);
}

void subscription_destroy(struct subscription *sub)
{
	struct channel *ch = sub->channel;

	subscription_leave(sub);
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

void subscription_settled(struct consumer *c, uint32_t count)
{
	struct subscription *sub = subscription_of(c);

	consumer_settled(c, count);
	if (sub->is_gone && c->lease.count == 0)
		release(sub);
}
