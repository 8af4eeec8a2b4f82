#include "subscription.h"

#include <stdio.h>

#include "base/mem.h"
#include "broker/queue.h"
#include "channel.h"
#include "lease_notice.h"
#include "session_private.h"

static bool can_take(const struct consumer *c)
{
	const struct subscription *sub = subscription_of(c);
	const struct session *s = sub->channel->session;

	return !sub->confirm && s->ops->can_take(s->ctx);
}

/* Its messages leave together, with the reply. */
static void gather(struct subscription *sub, const struct delivery *d)
{
	if (!sub->deliveries)
		sub->deliveries = mem_alloc(sub->consumer.max * sizeof(*sub->deliveries));
	msg_ref(d->msg);
	sub->deliveries[sub->count++] = *d;
}

static void on_deliver(struct consumer *c, struct entry *e, bool is_redelivered)
{
	struct subscription *sub = subscription_of(c);
	struct channel *ch = sub->channel;
	const struct session *s = ch->session;
	struct delivery d = { .msg = e->msg,
			      .attempt = e->attempts,
			      .is_redelivered = is_redelivered };

	if (c->is_auto_ack) {
		e->tag = 0;
		d.attempt++; /* nothing counts it any more */
	} else {
		d.tag = held_add(&ch->held, e);
		e->holder = &ch->holder;
		if (sub->notify_ms)
			lease_notice_add(sub, e);
	}
	if (c->is_get)
		gather(sub, &d);
	else
		s->ops->on_deliver(s->ctx, ch->number, sub->sid, &d);
}

static void on_answer(struct consumer *c)
{
	struct subscription *sub = subscription_of(c);
	struct reply *r = sub->reply;
	struct delivery *deliveries = sub->deliveries;
	uint32_t count = sub->count;

	subscription_destroy(sub);
	reply_messages_take(r, deliveries, count);
}

static void on_cancel(struct consumer *c)
{
	struct subscription *sub = subscription_of(c);
	const struct session *s = sub->channel->session;
	struct reply *r = sub->reply;
	struct error err;
	char words[2 * NAME_LEN_MAX + 32];

	if (r) {
		error_set(&err, TIDE_ENOTFOUND, "queue '%s' was deleted", c->queue->name);
		subscription_destroy(sub);
		reply_error(r, &err);
		return;
	}
	snprintf(words, sizeof(words), "%s queue-deleted", sub->sid);
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

static void on_active(struct consumer *c)
{
	subscription_tell_active(subscription_of(c));
}

static const struct consumer_ops ops = {
	.can_take = can_take,
	.on_deliver = on_deliver,
	.on_answer = on_answer,
	.on_active = on_active,
	.on_cancel = on_cancel,
};

struct subscription *subscription_create(struct channel *ch, struct slice sid)
{
	struct subscription *sub = mem_zalloc(sizeof(*sub));

	sub->channel = ch;
	sub->consumer.ops = &ops;
	sub->consumer.is_get = sid.len == 0;
	TAILQ_INSERT_TAIL(&ch->subscriptions, sub, channel_link);
	if (sid.len == 0)
		return sub;
	sub->sid = mem_strndup(sid.data, sid.len);
	HASH_ADD_KEYPTR(hh, ch->by_sid, sub->sid, sid.len, sub);
	ch->session->subscription_count++;
	return sub;
}

static void release(struct subscription *sub)
{
	msg_match_deinit(&sub->match);
	mem_free(sub->sid);
	mem_free(sub);
}

void subscription_destroy(struct subscription *sub)
{
	struct channel *ch = sub->channel;

	consumer_remove(&sub->consumer);
	if (sub->confirm)
		sub->confirm->subscription = NULL;
	TAILQ_REMOVE(&ch->subscriptions, sub, channel_link);
	if (sub->sid) {
		HASH_DEL(ch->by_sid, sub);
		ch->session->subscription_count--;
	}
	sub->is_gone = true;
	if (sub->consumer.unacked == 0)
		release(sub);
}

void subscription_confirmed(struct subscription *sub)
{
	sub->confirm = NULL;
	subscription_tell_active(sub);
	consumer_update(&sub->consumer);
}

void subscription_settled(struct subscription *sub)
{
	consumer_settled(&sub->consumer);
	if (sub->is_gone && sub->consumer.unacked == 0)
		release(sub);
}
