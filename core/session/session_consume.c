/* SUB, UNSUB and GET. */
#include <float.h>
#include <limits.h>

#include "base/container.h"
#include "base/mem.h"
#include "broker/delivery.h"
#include "broker/pause.h"
#include "broker/queue_scan.h"
#include "broker/unusable.h"
#include "service_events.h"
#include "session_private.h"

/* Can the queue have this subscription beside those that it has? */
static int check_exclusive(const struct queue *q, bool is_exclusive, struct error *err)
{
	if (q->has_exclusive)
		return error_set(err, TIDE_EEXISTS,
				 "queue '%s' has an exclusive subscription", q->name);
	if (is_exclusive && q->consumer_count > 0)
		return error_set(err, TIDE_EEXISTS,
				 "queue '%s' has %u subscription%s: an exclusive one "
				 "must be the only one",
				 q->name, q->consumer_count,
				 q->consumer_count == 1 ? "" : "s");
	return TIDE_OK;
}

int session_consume_subscribe(struct channel *ch, const struct subscribe_spec *spec,
			      struct reply *r, struct error *err)
{
	struct session *s = ch->session;
	struct subscription *sub;
	struct queue *q;

	if (s->broker->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	if ((!session_topic_is_meant(spec) &&
	     session_queue_make(s, spec->queue, err) < 0) ||
	    session_queue_any(s, USER_READ, spec->queue, &q, err) < 0 ||
	    unusable_check(&q->definition, err) < 0 ||
	    session_topic_check(q, spec, err) < 0 ||
	    check_exclusive(q, spec->is_exclusive, err) < 0)
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
	sub->consumer.is_exclusive = spec->is_exclusive;
	sub->consumer.ack_timeout_ms = spec->ack_timeout_ms;
	sub->consumer.rank = spec->rank;
	sub->consumer.lease.notify_ms = (uint32_t)spec->notify_lease_ms;
	sub->told_lease_ms = queue_lease(q, spec->ack_timeout_ms);
	if (ch->credit.limit > 0 && !spec->is_auto_ack)
		sub->consumer.credit = &ch->credit;
	/* Messages come after the OK, which may have to wait for others. */
	sub->confirm = r;
	r->subscription = sub;
	consumer_add(q, &sub->consumer);
	service_events_consumer(sub, EVENT_CONSUMER_STARTED);
	if (q->topic)
		session_topic_join(sub, spec);
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

/* Before any of its names is looked for. */
static int check_readable(struct session *s, const struct get_spec *spec,
			  struct error *err)
{
	int rc = TIDE_OK;

	for (unsigned i = 0; rc == TIDE_OK && i < spec->queue_count; i++)
		rc = session_access_check_queue(s, USER_READ, spec->queues[i], err);
	return rc;
}

/* The first topic that the GET names, or NULL. */
static struct queue *find_topic(struct session *s, const struct get_spec *spec)
{
	for (unsigned i = 0; i < spec->queue_count; i++) {
		struct queue *q = queue_find(s->vhost, spec->queues[i]);

		if (q && q->topic)
			return q;
	}
	return NULL;
}

/* No topic is named: nothing is said that is for topics alone. */
static int check_topic_options(struct session *s, const struct get_spec *spec,
			       struct error *err)
{
	if (!spec->group.data && !spec->from.kind && spec->partition < 0 &&
	    !spec->offset.kind)
		return TIDE_OK;
	if (!queue_find(s->vhost, spec->queues[0]))
		return session_missing(s, SUBJECT_TOPIC, spec->queues[0], err);
	return error_set(err, TIDE_ESYNTAX,
			 "group=, from=, partition= and offset= are for topics, and "
			 "'%" SLICE_FMT "' is a queue",
			 SLICE_ARG(spec->queues[0]));
}

/* The queues of the GET, each named once. */
static int find_queues(struct session *s, const struct get_spec *spec,
		       struct queue **queues, struct error *err)
{
	for (unsigned i = 0; i < spec->queue_count; i++) {
		if (session_queue_make(s, spec->queues[i], err) < 0 ||
		    session_queue_usable(s, USER_READ, spec->queues[i], &queues[i], err) <
			    0 ||
		    session_queue_check_get(queues[i], err) < 0)
			return err->code;
		for (unsigned k = 0; k < i; k++)
			if (queues[k] == queues[i])
				return error_set(err, TIDE_ESYNTAX,
						 "GET names queue '%s' twice",
						 queues[i]->name);
	}
	return TIDE_OK;
}

/* ---- a search of the whole queue -------------------------------------------------
 *
 * A GET with a match that has found nothing in the window looks at all ready messages, in
 * rounds, and takes the first that matches by its id. When none does, it goes on as any
 * other: it waits, or is answered. */

struct hunt {
	struct queue_scan scan;
	struct job job;
	struct msg_match match;
	struct consumer like; /* how it takes the message */
	struct reply *reply;
	struct broker *broker;
	struct vhost *vhost;
	uint64_t serial; /* of the queue */
	uint32_t max;
	int64_t until_ms;
	struct place next; /* where the search goes on */
	uint64_t found;    /* an id; 0: none */
	bool is_whole;     /* all have been looked at */
	struct error err;
};

static void add_fetch(struct fetch *f, const struct consumer *like, int64_t until_ms)
{
	f->getter.match = f->match.kind == MSG_MATCH_ALL ? NULL : &f->match;
	for (unsigned i = 0; i < f->getter.consumer_count; i++) {
		f->consumers[i].is_auto_ack = like->is_auto_ack;
		f->consumers[i].ack_timeout_ms = like->ack_timeout_ms;
	}
	getter_add(&f->getter, until_ms);
}

/* Is its asker there? */
static bool is_wanted(const struct hunt *h)
{
	const struct channel *ch = h->reply->channel;

	return ch && !ch->is_closing && !h->broker->is_draining;
}

static void hunt_end(struct hunt *h, struct queue *q)
{
	struct fetch *f;

	if (h->err.code < 0) {
		reply_error(h->reply, &h->err);
	} else if (q && is_wanted(h) && h->until_ms > h->broker->mono_ms) {
		f = fetch_create(h->reply->channel, 1, h->reply);
		f->getter.max = h->max;
		f->match = h->match;
		h->match = (struct msg_match){ .kind = MSG_MATCH_ALL };
		f->consumers[0].queue = q;
		add_fetch(f, &h->like, h->until_ms);
		queue_activate(q);
	} else {
		reply_messages_take(h->reply, NULL, 0);
	}
	msg_match_deinit(&h->match);
	if (!h->broker->is_closing)
		vhost_leave(h->vhost);
	mem_free(h);
}

static bool on_hunt_match(struct queue_scan *scan, struct shard *sh,
			  const struct shard_row *row)
{
	struct hunt *h = container_of(scan, struct hunt, scan);
	int64_t expires_ms = row->row.expires_unix_ms;

	if (expires_ms && expires_ms <= h->broker->now_ms)
		return true;
	h->found = row->row.id;
	return false;
}

static void on_tried(void *ctx, bool is_answered)
{
	struct hunt *h = ctx;

	h->found = 0;
	if (!is_answered) {
		job_add(h->broker, &h->job);
		return;
	}
	h->reply = NULL;
	msg_match_deinit(&h->match);
	if (!h->broker->is_closing)
		vhost_leave(h->vhost);
	mem_free(h);
}

static void on_hunted(struct queue_scan *scan)
{
	struct hunt *h = container_of(scan, struct hunt, scan);
	struct queue *q = queue_by_serial(h->broker, h->serial);

	h->err = scan->err;
	h->next = scan->next;
	h->is_whole = scan->is_whole;
	queue_scan_deinit(scan);
	if (h->found && q && h->err.code == TIDE_OK && !pause_is_on(q, QUEUE_OUT))
		session_by_id_try(
			q, &(struct by_id_try){ h->found, h->reply, h->like.is_auto_ack,
						h->like.ack_timeout_ms, on_tried, h });
	else
		job_add(h->broker, &h->job);
}

static const struct queue_scan_ops hunt_ops = { on_hunt_match, on_hunted };

static void on_hunt_job(struct job *job)
{
	struct hunt *h = container_of(job, struct hunt, job);
	struct queue *q = queue_by_serial(h->broker, h->serial);

	if (h->err.code == TIDE_OK && !q)
		error_set(&h->err, TIDE_ENOTFOUND, "the queue was deleted");
	if (h->err.code < 0 || h->is_whole || !is_wanted(h) ||
	    pause_is_on(q, QUEUE_OUT)) {
		hunt_end(h, q);
		return;
	}
	h->scan = (struct queue_scan){ .ops = &hunt_ops, .match = &h->match };
	queue_scan_init(&h->scan, q, ENTRY_READY, UINT_MAX);
	queue_scan_begin(&h->scan, h->next);
}

/* Some messages were not looked at. Not of a queue with groups or a rate: by its id a
 * message is taken whatever they say. */
static bool is_to_hunt(const struct queue *q, const struct msg_match *match)
{
	if (q->is_metered || pause_is_on(q, QUEUE_OUT))
		return false;
	for (unsigned i = 0; i < q->shard_count; i++) {
		const struct shard *sh = q->shards[i];

		if (sh->order)
			return false;
		if (msg_match_is_spent(match, q->vhost->broker->now_ms) ||
		    shard_tail_is_far(sh, ENTRY_READY) ||
		    shard_count(sh, ENTRY_READY) >
			    DELIVERY_MATCH_MESSAGES / q->shard_count)
			return true;
	}
	return false;
}

/* Takes the place of a fetch. */
static void hunt_begin(struct fetch *f, const struct get_spec *spec)
{
	struct queue *q = f->consumers[0].queue;
	struct hunt *h = mem_zalloc(sizeof(*h));

	h->job.run = on_hunt_job;
	h->match = f->match;
	f->match = (struct msg_match){ .kind = MSG_MATCH_ALL };
	h->like.is_auto_ack = spec->is_auto_ack;
	h->like.ack_timeout_ms = spec->ack_timeout_ms;
	h->reply = f->reply;
	h->broker = q->vhost->broker;
	h->vhost = q->vhost;
	h->serial = q->serial;
	h->max = spec->max;
	h->until_ms = h->broker->mono_ms + spec->wait_ms;
	h->next = (struct place){ -DBL_MAX, 0 };
	fetch_drop(f);
	vhost_enter(h->vhost);
	job_add(h->broker, &h->job);
}

/* Now, and not at the end of the turn: the next request of this channel may be to ACK, to
 * PURGE or to DELETE. Those in line before come first. */
static void deal_at_once(struct fetch *f, const struct get_spec *spec)
{
	const struct fetch_list *fetches = &f->channel->fetches;

	for (unsigned i = 0; i < spec->queue_count; i++) {
		delivery_turn(f->consumers[i].queue);
		/* A fetch is the last of its channel, unless it was given something
		 * and has gone. */
		if (TAILQ_LAST(fetches, fetch_list) != f)
			return;
	}
	if (spec->match.data && spec->queue_count == 1 && f->getter.count == 0 &&
	    is_to_hunt(f->consumers[0].queue, &f->match))
		hunt_begin(f, spec);
	else if (spec->wait_ms == 0)
		delivery_answer(&f->getter);
}

int session_consume_get(struct channel *ch, const struct get_spec *spec, struct reply *r,
			struct error *err)
{
	struct broker *b = ch->session->broker;
	struct queue *queues[GET_QUEUES_MAX], *topic;
	const struct consumer like = { .is_auto_ack = spec->is_auto_ack,
				       .ack_timeout_ms = spec->ack_timeout_ms };
	struct msg_match match;
	struct fetch *f;

	if (check_readable(ch->session, spec, err) < 0)
		return err->code;
	topic = find_topic(ch->session, spec);
	if (topic)
		return session_pull_get(ch, topic, spec, r, err);
	if (check_topic_options(ch->session, spec, err) < 0)
		return err->code;
	if (spec->id)
		return session_by_id_get(ch, spec, r, err);
	if (find_queues(ch->session, spec, queues, err) < 0 ||
	    session_match_init(b, &match, spec->match, err) < 0)
		return err->code;
	f = fetch_create(ch, spec->queue_count, r);
	f->getter.max = spec->max;
	f->match = match;
	for (unsigned i = 0; i < spec->queue_count; i++)
		f->consumers[i].queue = queues[i];
	add_fetch(f, &like, b->mono_ms + (b->is_draining ? 0 : spec->wait_ms));
	if (!b->is_draining) /* else answered at the end of the turn */
		deal_at_once(f, spec);
	return TIDE_OK;
}
