#include "session.h"

#include <inttypes.h>
#include <stdio.h>

#include "../base/mem.h"
#include "publish.h"
#include "retry.h"

/* ---- life ------------------------------------------------------------------------- */

struct session *session_create(struct broker *b, const struct session_ops *ops, void *ctx)
{
	struct session *s = mem_zalloc(sizeof(*s));
	struct error ignored;

	s->broker = b;
	s->ops = ops;
	s->ctx = ctx;
	s->number = ++b->last_session;
	TAILQ_INIT(&s->exclusive);
	channel_init(&s->zero, s, 0);
	/* The default vhost is made at the start and never goes. */
	if (vhost_open(b, SLICE("/"), &s->vhost, &ignored) < 0)
		s->vhost = NULL;
	TAILQ_INSERT_TAIL(&b->sessions, s, link);
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
	drop_exclusive(s);
	TAILQ_REMOVE(&s->broker->sessions, s, link);
	mem_free(s->name);
	mem_free(s);
}

int session_set_vhost(struct session *s, struct slice name, struct error *err)
{
	return vhost_open(s->broker, name, &s->vhost, err);
}

void session_set_name(struct session *s, struct slice name)
{
	mem_free(s->name);
	s->name = mem_strndup(name.data, name.len);
}

static void update_consumers(struct channel *ch)
{
	struct consumer *c;

	TAILQ_FOREACH (c, &ch->consumers, channel_link)
		if (c->is_waiting)
			queue_update_consumer(c);
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
	struct broker *b = ch->session->broker;
	struct consumer *c;

	TAILQ_FOREACH (c, &ch->consumers, channel_link)
		if (c->reply && !c->is_extended)
			heap_set(&b->waits, &c->wait, b->now_ms);
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
	return s->pending >= s->broker->config.replies_max;
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

static int find_exchange(struct session *s, struct slice name, struct exchange **out,
			 struct error *err)
{
	*out = NULL;
	if (name.len == 0)
		return TIDE_OK;
	*out = exchange_find(s->vhost, name);
	if (!*out)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no exchange '%" SLICE_FMT "'",
				 SLICE_ARG(name));
	return TIDE_OK;
}

int session_prepare(struct session *s, const struct publish_spec *spec, struct msg **out,
		    struct error *err)
{
	struct broker *b = s->broker;
	struct exchange *x;
	struct msg_spec m;
	int rc;

	if (b->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	rc = find_exchange(s, spec->exchange, &x, err);
	if (rc < 0)
		return rc;
	m = (struct msg_spec){
		.id = id_next(&b->ids, b->now_ms),
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
		.dedupe_id = spec->dedupe_id,
	};
	*out = msg_create(&m);
	if (!*out)
		return error_set(err, TIDE_EBUSY, "there is no memory for %zu bytes now",
				 spec->payload_len);
	return TIDE_OK;
}

void session_publish_take(struct session *s, struct msg *m, bool is_mandatory,
			  struct reply *r)
{
	struct exchange *x;
	struct error err;
	struct published published = { .id = m->id };
	int rc = find_exchange(s, m->exchange, &x, &err);

	s->has_published = true;
	r->kind = REPLY_PUBLISHED;
	if (rc == TIDE_OK)
		rc = publish_message(s->vhost, x, m, is_mandatory, &r->waiter, &published,
				     &err);
	r->id = published.id;
	r->count = published.queues;
	r->is_duplicate = published.is_duplicate;
	if (rc < 0)
		reply_error(r, &err);
	else
		reply_when_done(r);
	msg_unref(m);
	broker_check_pressure(s->broker);
}

/* ---- consuming
 * -------------------------------------------------------------------------- */

int session_queue(struct session *s, struct slice name, struct queue **out,
		  struct error *err)
{
	struct queue *q = queue_find(s->vhost, name);

	if (!q)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no queue '%" SLICE_FMT "'", SLICE_ARG(name));
	if (q->owner && q->owner != s)
		return error_set(err, TIDE_EDENIED,
				 "queue '%s' belongs to another connection", q->name);
	*out = q;
	return TIDE_OK;
}

static struct consumer *add_consumer(struct channel *ch)
{
	struct consumer *c = mem_zalloc(sizeof(*c));

	c->channel = ch;
	heap_node_init(&c->wait);
	TAILQ_INSERT_TAIL(&ch->consumers, c, channel_link);
	return c;
}

void session_subscribe(struct channel *ch, const struct subscribe_spec *spec,
		       struct reply *r)
{
	struct session *s = ch->session;
	struct consumer *c;
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
	if (channel_consumer(ch, spec->sid)) {
		reply_refuse(r, TIDE_EEXISTS,
			     "this channel has a subscription '%" SLICE_FMT "' already",
			     SLICE_ARG(spec->sid));
		return;
	}
	c = add_consumer(ch);
	c->sid = mem_strndup(spec->sid.data, spec->sid.len);
	c->prefetch = spec->prefetch;
	c->is_auto_ack = spec->is_auto_ack;
	/* Its messages come after the OK, which may have to wait for others. */
	c->confirm = r;
	r->consumer = c;
	queue_add_consumer(q, c);
	reply_ok(r);
}

void session_unsubscribe(struct channel *ch, struct slice sid, struct reply *r)
{
	struct consumer *c = channel_consumer(ch, sid);

	if (!c) {
		reply_refuse(r, TIDE_ENOTFOUND,
			     "this channel has no subscription '%" SLICE_FMT "'",
			     SLICE_ARG(sid));
		return;
	}
	consumer_destroy(c);
	reply_ok(r);
}

void session_get(struct channel *ch, const struct get_spec *spec, struct reply *r)
{
	struct broker *b = ch->session->broker;
	struct consumer *c;
	struct queue *q;
	struct error err;

	if (session_queue(ch->session, spec->queue, &q, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	c = add_consumer(ch);
	c->reply = r;
	c->max = spec->max;
	c->is_auto_ack = spec->is_auto_ack;
	queue_add_consumer(q, c);
	heap_set(&b->waits, &c->wait, b->now_ms + spec->wait_ms);
	/* Now, and not at the end of the turn: the next request of this channel may
	 * be to ACK, to PURGE or to DELETE. Those in line before come first. */
	queue_deal_get(c, spec->wait_ms > 0);
}

/* ---- settling
 * ----------------------------------------------------------------------------- */

static int check_range(const struct channel *ch, const struct tag_range *range,
		       struct error *err)
{
	const struct entry *e = held_from(&ch->held, range->first);

	if (e && e->tag <= range->last)
		return TIDE_OK;
	if (range->first > ch->held.last_tag || range->first == 0)
		return error_set(err, TIDE_ENOTFOUND,
				 "tag %" PRIu64 " was never given out on this channel",
				 range->first);
	return error_set(err, TIDE_ELEASE,
			 "tag %" PRIu64
			 " is no longer held: it was settled, timed out or its queue "
			 "was deleted",
			 range->first);
}

static void settle_entry(struct entry *e, const struct settle_spec *spec, struct reply *r)
{
	struct queue *q = entry_queue(e);
	struct broker *b = q->vhost->broker;
	int64_t ms = spec->ms;

	switch (spec->how) {
	case SETTLE_ACK:
		q->counters.acked++;
		b->counters.acked++;
		channel_release(e);
		shard_remove(e, &r->waiter);
		return;
	case SETTLE_RETRY:
		q->counters.nacked++;
		retry_failed(e, "nack");
		return;
	case SETTLE_AFTER:
		q->counters.nacked++;
		retry_after(e, ms);
		return;
	case SETTLE_DEAD:
		q->counters.nacked++;
		retry_dead(e, "rejected");
		return;
	case SETTLE_TOUCH:
		shard_touch(e, b->now_ms + (ms ? ms : q->config.ack_timeout_ms));
		return;
	}
}

void session_settle(struct channel *ch, const struct settle_spec *spec, struct reply *r)
{
	uint64_t count = 0;
	struct error err;

	/* Checked first: an error changes nothing. */
	for (size_t i = 0; i < spec->count; i++) {
		if (check_range(ch, &spec->ranges[i], &err) < 0) {
			reply_error(r, &err);
			return;
		}
	}
	for (size_t i = 0; i < spec->count; i++) {
		struct entry *e = held_from(&ch->held, spec->ranges[i].first);

		while (e && e->tag <= spec->ranges[i].last) {
			uint64_t tag = e->tag;

			settle_entry(e, spec, r);
			count++;
			e = held_from(&ch->held, tag + 1);
		}
	}
	reply_count(r, count);
}
