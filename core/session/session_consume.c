/* SUB, UNSUB and GET. */
#include "broker/deal.h"
#include "session_private.h"

int session_consume_subscribe(struct channel *ch, const struct subscribe_spec *spec,
			      struct reply *r, struct error *err)
{
	struct session *s = ch->session;
	struct subscription *sub;
	struct queue *q;

	if (s->broker->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (session_queue_usable(s, spec->queue, &q, err) < 0)
		return err->code;
	if (channel_subscription(ch, spec->sid))
		return error_set(err, TIDE_EEXISTS,
				 "this channel has a subscription '%" SLICE_FMT
				 "' already",
				 SLICE_ARG(spec->sid));
	if (s->subscription_count >= s->broker->config.consumers_max)
		return error_set(
			err, TIDE_ELIMIT,
			"the limit of %u subscriptions per connection is reached",
			s->subscription_count);
	if (spec->notify_lease_ms && spec->is_auto_ack)
		return error_set(err, TIDE_ESYNTAX,
				 "notify-lease= needs ack=manual: with ack=auto there is "
				 "no lease");
	sub = subscription_create(ch, spec->sid);
	sub->consumer.prefetch = spec->prefetch;
	sub->consumer.priority = spec->priority;
	sub->consumer.is_auto_ack = spec->is_auto_ack;
	sub->consumer.rank = spec->rank;
	sub->notify_ms = spec->notify_lease_ms;
	if (ch->credit.limit > 0 && !spec->is_auto_ack)
		sub->consumer.credit = &ch->credit;
	/* Its messages come after the OK, which may have to wait for others. */
	sub->confirm = r;
	r->subscription = sub;
	consumer_add(q, &sub->consumer);
	reply_ok(r);
	return TIDE_OK;
}

int session_consume_unsubscribe(struct channel *ch, struct slice sid, struct reply *r,
				struct error *err)
{
	struct subscription *sub = channel_subscription(ch, sid);

	if (!sub)
		return error_set(err, TIDE_ENOTFOUND,
				 "this channel has no subscription '%" SLICE_FMT "'",
				 SLICE_ARG(sid));
	subscription_destroy(sub);
	reply_ok(r);
	return TIDE_OK;
}

int session_consume_get(struct channel *ch, const struct get_spec *spec, struct reply *r,
			struct error *err)
{
	struct broker *b = ch->session->broker;
	struct subscription *sub;
	struct msg_match match;
	struct queue *q;

	if (spec->id)
		return session_by_id_get(ch, spec, r, err);
	if (session_queue_usable(ch->session, spec->queue, &q, err) < 0 ||
	    session_queue_check_get(q, err) < 0 ||
	    msg_match_init(&match, spec->match, err) < 0)
		return err->code;
	sub = subscription_create(ch, (struct slice){ NULL, 0 });
	sub->match = match;
	if (spec->match.data)
		sub->consumer.match = &sub->match;
	sub->reply = r;
	sub->consumer.max = spec->max;
	sub->consumer.is_auto_ack = spec->is_auto_ack;
	consumer_add(q, &sub->consumer);
	deal_wait(&sub->consumer, b->mono_ms + spec->wait_ms);
	if (b->is_draining)
		return TIDE_OK; /* answered at the end of the turn */
	/* Now, and not at the end of the turn: the next request of this channel may
	 * be to ACK, to PURGE or to DELETE. Those in line before come first. */
	deal_queue(q);
	/* It is the last of its channel, unless it was given something and has gone. */
	sub = TAILQ_LAST(&ch->subscriptions, subscription_list);
	if (sub && sub->reply == r && spec->wait_ms == 0)
		deal_answer(&sub->consumer);
	return TIDE_OK;
}
