#include "session.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "broker/deal.h"
#include "broker/publish.h"
#include "settle.h"
#include "broker/unusable.h"

/* Unfinished answers of a session that may be large, such as those of PEEK. */
#define DOCUMENTS_MAX 8

/* ---- life ------------------------------------------------------------------------- */

struct session *session_create(struct service *service, const struct session_ops *ops,
			       void *ctx)
{
	struct session *s = mem_zalloc(sizeof(*s));
	struct error ignored;

	s->service = service;
	s->broker = service->broker;
	s->ops = ops;
	s->ctx = ctx;
	s->number = ++service->last_session;
	TAILQ_INIT(&s->exclusive);
	channel_init(&s->zero, s, 0);
	/* The default vhost is made at the start and never goes. */
	if (vhost_open(s->broker, SLICE("/"), &s->vhost, &ignored) < 0)
		s->vhost = NULL;
	else
		vhost_enter(s->vhost);
	TAILQ_INSERT_TAIL(&service->sessions, s, link);
	return s;
}

static void drop_exclusive(struct session *s)
{
	struct queue *q;

	while ((q = TAILQ_FIRST(&s->exclusive)) != NULL)
		queue_destroy(q);
}

void session_destroy(struct session *s)
{
	struct channel *ch, *next;

	s->is_closed = true;
	HASH_ITER (hh, s->channels, ch, next) {
		channel_deinit(ch);
		session_forget_channel(ch);
	}
	channel_deinit(&s->zero);
	settle_cancel(s);
	drop_exclusive(s);
	if (s->vhost)
		vhost_leave(s->vhost);
	TAILQ_REMOVE(&s->service->sessions, s, link);
	mem_free(s->name);
	mem_free(s->user);
	mem_free(s);
}

int session_set_vhost(struct session *s, struct slice name, struct error *err)
{
	struct vhost *v;
	int rc = vhost_open(s->broker, name, &v, err);

	if (rc < 0)
		return rc;
	s->exchange = NULL;
	s->prepared = NULL;
	vhost_enter(v);
	vhost_leave(s->vhost);
	s->vhost = v;
	return TIDE_OK;
}

void session_set_name(struct session *s, struct slice name)
{
	mem_free(s->name);
	s->name = mem_strndup(name.data, name.len);
}

void session_set_user(struct session *s, struct slice user)
{
	mem_free(s->user);
	s->user = mem_strndup(user.data, user.len);
	s->user_len = user.len;
}

static void update_consumers(struct channel *ch)
{
	struct subscription *sub;

	TAILQ_FOREACH (sub, &ch->subscriptions, channel_link)
		if (sub->consumer.is_waiting)
			consumer_update(&sub->consumer);
}

void session_drained(struct session *s)
{
	struct channel *ch, *next;

	update_consumers(&s->zero);
	HASH_ITER (hh, s->channels, ch, next)
		update_consumers(ch);
}

static void end_waits(struct channel *ch)
{
	int64_t now_ms = ch->session->broker->mono_ms;
	struct subscription *sub;

	TAILQ_FOREACH (sub, &ch->subscriptions, channel_link)
		if (sub->reply && !sub->consumer.is_extended)
			deal_wait(&sub->consumer, now_ms);
}

void session_end_waits(struct session *s)
{
	struct channel *ch, *next;

	end_waits(&s->zero);
	HASH_ITER (hh, s->channels, ch, next)
		end_waits(ch);
}

bool session_is_saturated(const struct session *s)
{
	return s->pending >= s->broker->config.replies_max ||
	       s->documents >= DOCUMENTS_MAX || s->settling;
}

/* ---- channels ------------------------------------------------------------------------
 */

static struct channel *find_channel(struct session *s, unsigned number)
{
	struct channel *ch;

	if (number == 0)
		return &s->zero;
	HASH_FIND_INT(s->channels, &number, ch);
	return ch;
}

struct channel *session_channel(struct session *s, unsigned number)
{
	struct channel *ch = find_channel(s, number);

	return ch && !ch->is_closing ? ch : NULL;
}

struct channel *session_closing_channel(struct session *s, unsigned number)
{
	struct channel *ch = find_channel(s, number);

	return ch && ch->is_closing ? ch : NULL;
}

int session_open(struct session *s, unsigned number, struct channel **out,
		 struct error *err)
{
	struct channel *ch = find_channel(s, number);

	if (ch && !ch->is_closing)
		return error_set(err, TIDE_EEXISTS, "channel %u is open already", number);
	if (ch) {
		ch->is_closing = false;
		*out = ch;
		return TIDE_OK;
	}
	if (s->channel_count >= s->broker->config.channels_max)
		return error_set(
			err, TIDE_ELIMIT,
			"this connection has %u channels open, which is the limit",
			s->channel_count);
	ch = mem_zalloc(sizeof(*ch));
	channel_init(ch, s, number);
	HASH_ADD_INT(s->channels, number, ch);
	s->channel_count++;
	*out = ch;
	return TIDE_OK;
}

void session_forget_channel(struct channel *ch)
{
	struct session *s = ch->session;

	HASH_DEL(s->channels, ch);
	s->channel_count--;
	mem_free(ch);
}

void session_close_channel(struct channel *ch, struct reply *r)
{
	channel_end(ch);
	ch->is_closing = true;
	reply_ok(r);
}

/* ---- publishing
 * ------------------------------------------------------------------------ */

static bool is_last_exchange(const struct session *s, struct slice name)
{
	const struct exchange *x = s->exchange;

	if (s->exchange_version != s->broker->route_version)
		return false; /* it may be gone */
	return x ? x->name_len == name.len && bytes_is_equal(x->name, name.data, name.len)
		 : name.len == 0;
}

static int find_exchange(struct session *s, struct slice name, struct error *err)
{
	s->exchange = name.len ? exchange_find(s->vhost, name) : NULL;
	s->exchange_version = s->broker->route_version;
	if (name.len && !s->exchange)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no exchange '%" SLICE_FMT "'",
				 SLICE_ARG(name));
	return TIDE_OK;
}

int session_prepare(struct session *s, const struct publish_spec *spec, struct msg **out,
		    struct error *err)
{
	struct broker *b = s->broker;
	struct msg_spec m;
	int rc;

	if (b->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (!is_last_exchange(s, spec->exchange)) {
		rc = find_exchange(s, spec->exchange, err);
		if (rc < 0)
			return rc;
	}
	m = (struct msg_spec){
		.id = broker_next_id(b),
		.ts_unix_ms = b->now_ms,
		.due_unix_ms = spec->delay_ms ? b->now_ms + spec->delay_ms : 0,
		.expires_unix_ms =
			spec->ttl_ms ? b->now_ms + spec->delay_ms + spec->ttl_ms : 0,
		.priority = spec->priority,
		.header_count = (uint8_t)spec->header_count,
		.exchange = spec->exchange,
		.key = spec->key,
		.headers = spec->headers,
		.payload = spec->payload,
		.payload_len = spec->payload_len,
		.pool = &b->msgs,
		.dedupe_id = spec->dedupe_id,
		.user = { s->user, s->user_len },
	};
	s->prepared = *out = msg_create(&m);
	if (!*out)
		return error_set(err, TIDE_EBUSY, "there is no memory for %zu bytes now",
				 spec->payload_len);
	return TIDE_OK;
}

void session_count_receiving(struct session *s, const struct msg *m, int sign)
{
	struct service *service = s->service;

	if (sign < 0) {
		service->receiving_bytes -= m->bytes;
		return;
	}
	service->receiving_bytes += m->bytes;
	/* Now: the next connection of this turn may ask for as much. */
	service_check_pressure(service);
}

void session_begin_publishing(struct session *s)
{
	if (!s->has_published && s->service->is_blocked)
		s->ops->on_blocked(s->ctx, true, s->service->blocked_why);
	s->has_published = true;
}

void session_publish_take(struct session *s, struct msg *m, bool is_mandatory,
			  struct reply *r)
{
	struct service *service = s->service;
	struct error err;
	struct published published = { .id = m->id };
	int rc = TIDE_OK;

	if (s->prepared != m || s->exchange_version != s->broker->route_version)
		rc = find_exchange(s, m->exchange, &err);
	s->prepared = NULL;
	session_begin_publishing(s);
	r->kind = REPLY_PUBLISHED;
	if (rc == TIDE_OK)
		rc = publish_message(s->vhost, s->exchange, m, is_mandatory, &r->waiter,
				     &published, &err);
	r->id = published.id;
	r->count = published.queues;
	r->is_duplicate = published.is_duplicate;
	if (rc < 0)
		reply_error(r, &err);
	else
		reply_when_done(r);
	msg_unref(m);
	service_check_pressure(service);
}

/* ---- consuming
 * -------------------------------------------------------------------------- */

int session_find_queue(struct session *s, struct slice name, struct queue **out,
		       struct error *err)
{
	struct queue *q = queue_find(s->vhost, name);

	if (!q)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no queue '%" SLICE_FMT "'", SLICE_ARG(name));
	if (q->owner && q->owner != &s->exclusive)
		return error_set(err, TIDE_EDENIED,
				 "queue '%s' belongs to another connection", q->name);
	*out = q;
	return TIDE_OK;
}

int session_queue(struct session *s, struct slice name, struct queue **out,
		  struct error *err)
{
	int rc = session_find_queue(s, name, out, err);

	return rc == TIDE_OK && (*out)->unusable ? unusable_queue_error(*out, err) : rc;
}

void session_subscribe(struct channel *ch, const struct subscribe_spec *spec,
		       struct reply *r)
{
	struct session *s = ch->session;
	struct subscription *sub;
	struct queue *q;
	struct error err;

	if (s->broker->is_draining) {
		reply_refuse(r, TIDE_ESHUTDOWN, "the broker is stopping");
		return;
	}
	if (session_queue(s, spec->queue, &q, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	if (channel_subscription(ch, spec->sid)) {
		reply_refuse(r, TIDE_EEXISTS,
			     "this channel has a subscription '%" SLICE_FMT "' already",
			     SLICE_ARG(spec->sid));
		return;
	}
	if (s->subscription_count >= s->broker->config.consumers_max) {
		error_set(&err, TIDE_ELIMIT,
			  "this connection has %u subscriptions, which is the limit",
			  s->subscription_count);
		reply_error(r, &err);
		return;
	}
	sub = subscription_create(ch, spec->sid);
	sub->consumer.prefetch = spec->prefetch;
	sub->consumer.is_auto_ack = spec->is_auto_ack;
	/* Its messages come after the OK, which may have to wait for others. */
	sub->confirm = r;
	r->subscription = sub;
	consumer_add(q, &sub->consumer);
	reply_ok(r);
}

void session_unsubscribe(struct channel *ch, struct slice sid, struct reply *r)
{
	struct subscription *sub = channel_subscription(ch, sid);

	if (!sub) {
		reply_refuse(r, TIDE_ENOTFOUND,
			     "this channel has no subscription '%" SLICE_FMT "'",
			     SLICE_ARG(sid));
		return;
	}
	subscription_destroy(sub);
	reply_ok(r);
}

void session_get(struct channel *ch, const struct get_spec *spec, struct reply *r)
{
	struct broker *b = ch->session->broker;
	struct subscription *sub;
	struct queue *q;
	struct error err;

	if (session_queue(ch->session, spec->queue, &q, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	sub = subscription_create(ch, (struct slice){ NULL, 0 });
	sub->reply = r;
	sub->consumer.max = spec->max;
	sub->consumer.is_auto_ack = spec->is_auto_ack;
	consumer_add(q, &sub->consumer);
	deal_wait(&sub->consumer, b->mono_ms + spec->wait_ms);
	if (b->is_draining)
		return; /* answered at the end of the turn */
	/* Now, and not at the end of the turn: the next request of this channel may
	 * be to ACK, to PURGE or to DELETE. Those in line before come first. */
	deal_queue(q);
	/* It is the last of its channel, unless it was given something and has gone. */
	sub = TAILQ_LAST(&ch->subscriptions, subscription_list);
	if (sub && sub->reply == r && spec->wait_ms == 0)
		deal_answer(&sub->consumer);
}
