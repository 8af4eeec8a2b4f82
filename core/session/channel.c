#include "channel.h"

#include "base/mem.h"
#include "broker/retry.h"
#include "session.h"

void channel_init(struct channel *ch, struct session *s, unsigned number)
{
	*ch = (struct channel){ .session = s, .number = number };
	STAILQ_INIT(&ch->replies);
	TAILQ_INIT(&ch->consumers);
	held_init(&ch->held);
}

/* Of what a consumer leaves behind, only the message that it was given first
 * can be the one at fault: consumers work in order. The others go back as if
 * they had never been taken. */
static void return_held(struct channel *ch)
{
	bool is_punished = !ch->session->broker->is_draining;
	struct held *h = &ch->held;
	struct entry *last;
	uint64_t tag;
	/* What GETs and those who have gone took counts as one consumer's. */
	bool is_get_charged = false;

	for (struct entry *e = is_punished ? held_from(h, 0) : NULL; e;
	     e = held_from(h, tag + 1)) {
		bool *is_charged;

		tag = e->tag;
		is_charged = e->consumer && !e->consumer->is_gone
				     ? &e->consumer->is_charged
				     : &is_get_charged;
		if (*is_charged)
			continue;
		*is_charged = true;
		retry_failed(e, "gone");
	}
	/* From the last to the first, so that each enters at the queue's front. */
	while ((last = held_last(h)) != NULL)
		retry_unpunished(last);
}

void channel_end(struct channel *ch)
{
	struct consumer *c;

	TAILQ_FOREACH (c, &ch->consumers, channel_link)
		queue_remove_consumer(c->queue, c);
	return_held(ch);
	while ((c = TAILQ_FIRST(&ch->consumers)) != NULL) {
		struct reply *r = c->reply;

		consumer_destroy(c);
		if (r)
			reply_messages_take(r, NULL, 0);
	}
	held_deinit(&ch->held);
}

void channel_deinit(struct channel *ch)
{
	channel_drop_replies(ch);
	channel_end(ch);
}

struct consumer *channel_consumer(struct channel *ch, struct slice sid)
{
	struct consumer *c;

	HASH_FIND(hh, ch->by_sid, sid.data, sid.len, c);
	return c;
}

struct consumer *channel_add_consumer(struct channel *ch, struct slice sid)
{
	struct consumer *c = mem_zalloc(sizeof(*c));

	c->channel = ch;
	heap_node_init(&c->wait);
	TAILQ_INSERT_TAIL(&ch->consumers, c, channel_link);
	if (!sid.len)
		return c;
	c->sid = mem_strndup(sid.data, sid.len);
	HASH_ADD_KEYPTR(hh, ch->by_sid, c->sid, sid.len, c);
	ch->session->subscription_count++;
	return c;
}

void consumer_destroy(struct consumer *c)
{
	struct channel *ch = c->channel;

	if (c->queue)
		queue_remove_consumer(c->queue, c);
	if (c->confirm)
		c->confirm->consumer = NULL;
	TAILQ_REMOVE(&ch->consumers, c, channel_link);
	if (c->sid) {
		HASH_DEL(ch->by_sid, c);
		ch->session->subscription_count--;
	}
	heap_remove(&ch->session->broker->waits, &c->wait);
	mem_free(c->sid);
	c->sid = NULL;
	c->is_gone = true;
	if (c->unacked == 0)
		mem_free(c);
}

static void deliver_auto(struct consumer *c, struct entry *e)
{
	struct session *s = c->channel->session;

	e->shard->served = e->rank;
	s->ops->on_deliver(s->ctx, c->channel->number, c->sid, 0, e->attempts + 1,
			   e->msg);
	c->queue->counters.acked++;
	s->broker->counters.acked++;
	shard_remove(e, NULL);
}

void consumer_deliver(struct consumer *c, struct entry *e)
{
	struct session *s = c->channel->session;
	struct queue *q = c->queue;

	c->delivered++;
	q->counters.delivered++;
	s->broker->counters.delivered++;
	if (e->attempts > 0)
		q->counters.redelivered++;
	if (c->is_auto_ack) {
		deliver_auto(c, e);
	} else {
		shard_hold(e, s->broker->now_ms + q->config.ack_timeout_ms);
		held_add(&c->channel->held, e);
		e->channel = c->channel;
		e->consumer = c;
		c->unacked++;
		s->ops->on_deliver(s->ctx, c->channel->number, c->sid, e->tag,
				   e->attempts, e->msg);
	}
	queue_update_consumer(c);
}

void channel_release(struct entry *e)
{
	struct consumer *c = e->consumer;

	if (!e->channel)
		return;
	held_remove(&e->channel->held, e->tag);
	e->channel = NULL;
	e->consumer = NULL;
	if (!c)
		return;
	c->unacked--;
	if (c->is_gone && c->unacked == 0)
		mem_free(c);
	else if (c->is_waiting && c->queue)
		queue_update_consumer(c);
}
