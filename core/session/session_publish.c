/* PUB: the message is made when its line is there, and published with its payload. */
#include <assert.h>

#include "broker/declare.h"
#include "broker/publish.h"
#include "service.h"
#include "session_private.h"

/* Was this exchange looked for last, and may the user publish to it? */
static inline bool is_last(const struct session *s, const struct publish_spec *spec)
{
	const struct exchange *x = s->exchange;

	if (s->exchange_version != s->broker->route_version)
		return false; /* it may be gone */
	if (x)
		return x->name_len == spec->exchange.len &&
		       bytes_is_equal(x->name, spec->exchange.data, spec->exchange.len);
	return spec->exchange.len == 0 &&
	       (s->may_write_all ||
		slice_is_equal(buf_slice(&s->written_key), spec->key));
}

static int find_exchange(const struct session *s, struct slice name,
			 struct exchange **out, struct error *err)
{
	*out = name.len ? exchange_find(s->vhost, name) : NULL;
	if (name.len && !*out)
		return session_missing(s, SUBJECT_EXCHANGE, name, err);
	if (!*out || !(*out)->config.is_internal)
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED,
			 "exchange '%" SLICE_FMT "' is internal: bindings, alternates, "
			 "dead letters and rules lead to it, no publish does",
			 SLICE_ARG(name));
}

/* Find it, and note that the user may publish to it. */
static int enter_exchange(struct session *s, struct slice name, struct slice key,
			  struct error *err)
{
	s->exchange_version = 0;
	if (session_access_check_write(s, name, key, err) < 0 ||
	    find_exchange(s, name, &s->exchange, err) < 0)
		return err->code;
	s->exchange_version = s->broker->route_version;
	if (name.len)
		return TIDE_OK;
	s->may_write_all = subject_may_all(&s->subject, USER_WRITE);
	buf_clear(&s->written_key);
	if (!s->may_write_all)
		buf_append_slice(&s->written_key, key);
	return TIDE_OK;
}

/* A client that calls its publish a dead letter would pass the filters that let those
 * through. */
static int check_headers(const struct publish_spec *spec, struct error *err)
{
	for (unsigned i = 0; i < spec->header_count; i++)
		if (msg_header_is_death(spec->headers[i].name))
			return error_set(err, TIDE_EDENIED,
					 "the header '%" SLICE_FMT "' is the broker's; "
					 "headers of a publish must not begin "
					 "with " MSG_DEATH_PREFIX,
					 SLICE_ARG(spec->headers[i].name));
	return TIDE_OK;
}

static int refuse_draining(const struct broker *b, struct error *err)
{
	if (b->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	return error_set(err, TIDE_ESHUTDOWN,
			 "the broker drains and takes no publishes; DRAIN off ends that");
}

/* Part of every publish. */
static inline __attribute__((always_inline)) int create(struct session *s,
							const struct publish_spec *spec,
							struct msg **out,
							struct error *err)
{
	struct broker *b = s->broker;
	uint64_t id;
	struct msg m;
	int rc = check_headers(spec, err);

	if (rc < 0)
		return rc;
	id = broker_next_id(b);
	if (!id)
		return id_lease_check(b, err);
	assert(spec->dedupe_id.len <= MSG_DEDUPE_ID_MAX);
	m = (struct msg){
		.id = id,
		.ts_unix_ms = b->now_ms,
		.due_unix_ms = spec->delay_ms ? b->now_ms + spec->delay_ms : 0,
		.expires_unix_ms =
			spec->ttl_ms ? b->now_ms + spec->delay_ms + spec->ttl_ms : 0,
		.priority = spec->priority,
		.ack_timeout_ms = spec->ack_timeout_ms,
		.is_transient = spec->is_transient,
		.header_count = (uint8_t)spec->header_count,
		.exchange = spec->exchange,
		.key = spec->key,
		.headers = spec->headers,
		.payload = spec->payload,
		.payload_len = spec->payload_len,
		.pool = &b->msgs,
		.dedupe_id = spec->dedupe_id.data,
		.dedupe_len = (uint8_t)spec->dedupe_id.len,
		.user = s->user,
		.user_len = s->user_len,
	};
	s->prepared = *out = msg_create(&m);
	if (!*out)
		return error_set(err, TIDE_EBUSY, "out of memory for %zu bytes",
				 spec->payload_len);
	return TIDE_OK;
}

int session_publish_prepare(struct session *s, const struct publish_spec *spec,
			    struct msg **out, struct error *err)
{
	const struct broker *b = s->broker;
	int rc;

	if (b->is_draining || b->refuses_publishes)
		return refuse_draining(b, err);
	if (!is_last(s, spec)) {
		rc = enter_exchange(s, spec->exchange, spec->key, err);
		if (rc < 0)
			return rc;
	}
	if (s->is_metered && session_allowance_publish(s, spec->payload_len, err) < 0)
		return err->code;
	return create(s, spec, out, err);
}

int session_publish_make(struct session *s, const struct publish_spec *spec,
			 struct msg **out, struct error *err)
{
	const struct broker *b = s->broker;
	struct exchange *x;
	int rc = b->is_draining || b->refuses_publishes
			 ? refuse_draining(b, err)
			 : find_exchange(s, spec->exchange, &x, err);

	return rc == TIDE_OK ? create(s, spec, out, err) : rc;
}

void session_publish_begin(struct session *s)
{
	if (!s->has_published && s->service->is_blocked)
		s->ops->on_blocked(s->ctx, true, s->service->blocked_why);
	s->has_published = !s->is_never_held;
}

void session_publish_hold_never(struct session *s)
{
	s->is_never_held = true;
}

/* Keep the publish for its transaction. */
static void keep(struct session_transaction *t, struct msg *m,
		 const struct publish_demand *demand, struct reply *r)
{
	struct session *s = r->channel->session;
	struct error err;
	int rc;

	s->prepared = NULL;
	session_publish_begin(s);
	if (demand->has_expected)
		rc = error_set(&err, TIDE_EDENIED,
			       "PUB expect= cannot be part of a transaction");
	else if (demand->key_count > 0)
		rc = error_set(&err, TIDE_ESYNTAX,
			       "a publish with several keys cannot be part of a "
			       "transaction");
	else
		rc = session_transaction_publish(t, m, demand->must, r, &err);
	if (rc < 0) {
		session_transaction_spoil(t, &err);
		reply_error(r, &err);
	}
	msg_unref(m);
}

/* Through the default exchange a key is the name of a queue. */
static int check_keys(struct session *s, const struct msg *m,
		      const struct publish_demand *demand, struct error *err)
{
	int rc = TIDE_OK;

	for (unsigned i = 0; i < demand->key_count && rc == TIDE_OK; i++)
		rc = session_access_check_write(s, m->exchange, demand->keys[i], err);
	return rc;
}

void session_publish_take(struct session *s, struct msg *m,
			  const struct publish_demand *demand, struct reply *r)
{
	struct service *service = s->service;
	struct session_transaction *transaction =
		demand->transaction ? demand->transaction : r->channel->transaction;
	struct error err;
	struct decide_spec spec = {
		.vhost = s->vhost,
		.subject = &s->subject,
		.msg = m,
		.connection = s->number,
		.may_deal = true,
		.make_queue = declare_on_demand,
		.expected = demand->has_expected ? &demand->expected : NULL,
		.keys = demand->keys,
		.key_count = demand->key_count,
	};
	struct published published = { .id = m->id };
	int rc = TIDE_OK;

	if (transaction) {
		keep(transaction, m, demand, r);
		return;
	}
	if (s->prepared != m || s->exchange_version != s->broker->route_version)
		rc = enter_exchange(s, m->exchange, m->key, &err);
	if (rc == TIDE_OK)
		rc = check_keys(s, m, demand, &err);
	spec.exchange = s->exchange;
	s->prepared = NULL;
	session_publish_begin(s);
	r->kind = REPLY_PUBLISHED;
	if (rc == TIDE_OK)
		rc = publish_message(&spec, demand->must, &r->waiter, &published, &err);
	r->id = published.id;
	r->count = published.queues;
	r->is_duplicate = published.is_duplicate;
	r->has_offset = published.has_offset;
	r->topics = published.topics;
	r->partition = published.partition;
	r->offset = published.offset;
	if (rc < 0)
		reply_error(r, &err);
	else
		reply_when_done(r);
	msg_unref(m);
	service_pressure_check(service);
}

bool session_publish_is_blocked(const struct session *s)
{
	return s->service->is_blocked;
}

bool session_publish_is_next_held(const struct session *s)
{
	return s->service->is_blocked && !s->has_published && !s->transactions &&
	       !s->is_never_held;
}
