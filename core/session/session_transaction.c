/* BEGIN, COMMIT and ROLLBACK: what is published and settled in between is kept, and takes
 * place as one. */
#include <inttypes.h>

#include "base/container.h"
#include "base/mem.h"
#include "broker/fate.h"
#include "broker/transaction.h"
#include "service.h"
#include "session_private.h"

/* Open transactions with names that a session has at most. */
#define NAMED_MAX 100

enum kept_kind { KEPT_PUBLISH, KEPT_SETTLE };

/* One request, until the end. */
struct kept_request {
	enum kept_kind kind;
	unsigned number;
	bool is_mandatory;
	struct msg *msg;
	struct settle_spec settle; /* without its ranges; its reason is ours */
	size_t tag_count;          /* the next ones of the transaction's tags */
};

/* A message to be settled: it is marked in channel->held. */
struct kept_tag {
	struct channel *channel;
	uint64_t tag;
};

struct session_transaction {
	struct session *session;
	struct channel *channel; /* of its BEGIN */
	char *name;              /* NULL: it is the channel's */
	TAILQ_ENTRY(session_transaction) named_link;
	struct kept_request *requests;
	size_t count, cap;
	struct kept_tag *tags;
	size_t tag_count, tag_cap;
	size_t messages; /* published and settled */
	size_t bytes;
	unsigned asked;       /* requests so far, with those that were refused */
	struct error failure; /* code 0: none was */
	unsigned failed;      /* the number of that request */
	/* Once it is being committed. */
	TAILQ_ENTRY(session_transaction) link;
	struct reply *reply;
	struct transaction *deciding;
};

/* A commit that is on its way to Redis: the reply to COMMIT waits. */
struct committing {
	struct waiter waiter;
	struct reply *reply;
	struct service *service;
	struct transaction_result result;
};

static void unmark(struct session_transaction *t)
{
	for (size_t i = 0; i < t->tag_count; i++)
		held_mark(&t->tags[i].channel->held, t->tags[i].tag, false);
	t->tag_count = 0;
}

/* Forget what was kept. */
static void drop_kept(struct session_transaction *t)
{
	unmark(t);
	for (size_t i = 0; i < t->count; i++) {
		msg_unref(t->requests[i].msg);
		mem_free((char *)t->requests[i].settle.reason.data);
	}
	t->count = t->messages = 0;
	t->session->service->transactions.bytes -= t->bytes;
	t->bytes = 0;
}

static void destroy(struct session_transaction *t)
{
	drop_kept(t);
	transaction_destroy(t->deciding);
	mem_free(t->name);
	t->session->service->transactions.open--;
	t->session->transactions--;
	mem_free(t->requests);
	mem_free(t->tags);
	mem_free(t);
}

struct session_transaction *session_transaction_find(struct session *s, struct slice name)
{
	struct session_transaction *t;

	TAILQ_FOREACH (t, &s->named, named_link)
		if (slice_is(name, t->name))
			return t;
	return NULL;
}

static int check_begin(struct channel *ch, struct slice name, struct error *err)
{
	if (name.len == 0 && ch->transaction)
		return error_set(err, TIDE_EEXISTS,
				 "this channel has a transaction already; COMMIT or "
				 "ROLLBACK ends it");
	if (name.len > 0 && session_transaction_find(ch->session, name))
		return error_set(err, TIDE_EEXISTS,
				 "there is a transaction '%.*s' already",
				 SLICE_HEAD(name, 64));
	if (name.len > 0 && ch->session->transactions >= NAMED_MAX)
		return error_set(err, TIDE_ELIMIT,
				 "a connection has at most %d open transactions",
				 NAMED_MAX);
	return TIDE_OK;
}

int session_transaction_begin(struct channel *ch, struct slice name, struct reply *r,
			      struct error *err)
{
	struct session *s = ch->session;
	struct session_transaction *t;

	if (check_begin(ch, name, err) < 0)
		return err->code;
	t = mem_zalloc(sizeof(*t));
	t->session = s;
	t->channel = ch;
	if (name.len > 0) {
		t->name = mem_strndup(name.data, name.len);
		TAILQ_INSERT_TAIL(&s->named, t, named_link);
	} else {
		ch->transaction = t;
	}
	s->transactions++;
	s->service->transactions.open++;
	reply_ok(r);
	return TIDE_OK;
}

void session_transaction_spoil(struct session_transaction *t, const struct error *why)
{
	t->asked++;
	if (t->failure.code < 0)
		return;
	t->failure = *why;
	t->failed = t->asked;
	drop_kept(t);
}

void session_transaction_refuse(struct channel *ch, const struct error *why)
{
	if (ch->transaction)
		session_transaction_spoil(ch->transaction, why);
}

/* A request that follows a refused one. */
static int check_failed(const struct session_transaction *t, struct error *err)
{
	if (t->failure.code == TIDE_OK)
		return TIDE_OK;
	return error_set(err, TIDE_EABORTED,
			 "the transaction has failed with request %u; ROLLBACK or COMMIT "
			 "ends it",
			 t->failed);
}

static int check_room(const struct session_transaction *t, size_t messages, size_t bytes,
		      struct error *err)
{
	const struct service *service = t->session->service;
	const struct broker_config *c = &service->broker->config;

	if (messages > c->transaction_messages_max - t->messages)
		return error_set(
			err, TIDE_ELIMIT,
			"a transaction publishes and settles %u messages at most "
			"(--max-transaction-messages)",
			c->transaction_messages_max);
	if (bytes > c->transaction_bytes_max - t->bytes)
		return error_set(err, TIDE_ELIMIT,
				 "a transaction has %zu KiB at most "
				 "(--max-transaction-bytes)",
				 c->transaction_bytes_max >> 10);
	if (service->transactions.bytes > c->transactions_bytes_max ||
	    bytes > c->transactions_bytes_max - service->transactions.bytes)
		return error_set(err, TIDE_ELIMIT,
				 "all open transactions together have %zu KiB at most "
				 "(--max-transactions-bytes)",
				 c->transactions_bytes_max >> 10);
	return TIDE_OK;
}

static struct kept_request *keep(struct session_transaction *t, size_t messages,
				 size_t bytes)
{
	MEM_GROW(t->requests, t->count, t->cap, 8);
	t->messages += messages;
	t->bytes += bytes;
	t->session->service->transactions.bytes += bytes;
	t->requests[t->count] = (struct kept_request){ .number = ++t->asked };
	return &t->requests[t->count++];
}

int session_transaction_publish(struct session_transaction *t, struct msg *m,
				bool is_mandatory, struct reply *r, struct error *err)
{
	size_t bytes = sizeof(struct kept_request) + m->bytes;
	struct kept_request *kept;

	if (check_failed(t, err) < 0 || check_room(t, 1, bytes, err) < 0)
		return err->code;
	kept = keep(t, 1, bytes);
	kept->kind = KEPT_PUBLISH;
	kept->msg = msg_ref(m);
	kept->is_mandatory = is_mandatory;
	reply_text(r, "queued");
	return TIDE_OK;
}

/* The next one of a range that this transaction does not settle already. */
static struct entry *next_unmarked(const struct held *held, uint64_t tag, uint64_t last)
{
	struct entry *e = held_from(held, tag);

	while (e && e->tag <= last &&
	       ((e->flags & LIES_IN_COMMIT) || held_is_marked(held, e->tag)))
		e = held_from(held, e->tag + 1);
	return e && e->tag <= last ? e : NULL;
}

static int refuse_tag(const struct channel *ch, uint64_t tag, struct error *err)
{
	if (held_is_marked(&ch->held, tag))
		return error_set(err, TIDE_ELEASE,
				 "tag %" PRIu64 " is settled by a transaction already",
				 tag);
	return channel_refuse_tag(ch, tag, err);
}

/* How many messages the ranges name. TIDE_ENOTFOUND, TIDE_ELEASE: a range names none. */
static int count_tags(const struct channel *ch, const struct settle_spec *spec,
		      size_t max, size_t *count, struct error *err)
{
	*count = 0;
	for (size_t i = 0; i < spec->count; i++) {
		const struct tag_range *range = &spec->ranges[i];
		const struct entry *e =
			next_unmarked(&ch->held, range->first, range->last);

		if (!e)
			return refuse_tag(ch, range->first, err);
		for (; e && *count <= max; ++*count)
			e = next_unmarked(&ch->held, e->tag + 1, range->last);
	}
	return TIDE_OK;
}

static void add_tag(struct session_transaction *t, struct channel *ch, uint64_t tag)
{
	MEM_GROW(t->tags, t->tag_count, t->tag_cap, 8);
	t->tags[t->tag_count++] = (struct kept_tag){ ch, tag };
	held_mark(&ch->held, tag, true);
}

int session_transaction_settle(struct session_transaction *t, struct channel *ch,
			       const struct settle_spec *spec, struct reply *r,
			       struct error *err)
{
	const struct slice reason = msg_cut_reason(spec->reason);
	struct kept_request *kept;
	size_t count, bytes;

	if (spec->has_priority)
		return error_set(err, TIDE_ESYNTAX,
				 "NACK pri= cannot be part of a transaction");
	if (check_failed(t, err) < 0 ||
	    count_tags(ch, spec, ch->session->broker->config.transaction_messages_max,
		       &count, err) < 0)
		return err->code;
	bytes = sizeof(struct kept_request) + count * sizeof(*t->tags) + reason.len;
	if (check_room(t, count, bytes, err) < 0)
		return err->code;
	kept = keep(t, 0, bytes);
	kept->kind = KEPT_SETTLE;
	kept->settle = *spec;
	kept->settle.ranges = NULL;
	kept->settle.reason = (struct slice){ NULL, reason.len };
	if (reason.len > 0)
		kept->settle.reason.data =
			memcpy(mem_alloc(reason.len), reason.data, reason.len);
	for (size_t i = 0; i < spec->count; i++) {
		const struct tag_range *range = &spec->ranges[i];
		struct entry *e = next_unmarked(&ch->held, range->first, range->last);

		/* NULL when an earlier range of this request has named the same. */
		for (; e; e = next_unmarked(&ch->held, e->tag + 1, range->last)) {
			add_tag(t, ch, e->tag);
			lease_work(e->lease);
			kept->tag_count++;
		}
	}
	t->messages += kept->tag_count;
	reply_text(r, "queued");
	return TIDE_OK;
}

/* Take a transaction out of the table. NULL: there is none of that name. */
static struct session_transaction *take(struct channel *ch, struct slice name,
					struct error *err)
{
	struct session_transaction *t =
		name.len ? session_transaction_find(ch->session, name) : ch->transaction;

	if (!t && name.len > 0)
		error_set(err, TIDE_ENOTFOUND, "there is no transaction '%.*s'",
			  SLICE_HEAD(name, 64));
	else if (!t)
		error_set(err, TIDE_ENOTFOUND,
			  "this channel has no transaction: send BEGIN first");
	else if (t->name)
		TAILQ_REMOVE(&ch->session->named, t, named_link);
	else
		ch->transaction = NULL;
	return t;
}

int session_transaction_rollback(struct channel *ch, struct slice name, struct reply *r,
				 struct error *err)
{
	struct session_transaction *t = take(ch, name, err);

	if (!t)
		return err->code;
	ch->session->service->transactions.rolled_back++;
	destroy(t);
	reply_ok(r);
	return TIDE_OK;
}

static void leave(struct session_transaction *t)
{
	if (t->session->committing != t)
		return;
	t->session->committing = NULL;
	TAILQ_REMOVE(&t->session->service->transactions.committing, t, link);
}

static bool settles_in(const struct session_transaction *t, const struct channel *ch)
{
	for (size_t i = 0; i < t->tag_count; i++)
		if (t->tags[i].channel == ch)
			return true;
	return false;
}

/* End the transactions of the session that were begun on the channel. Others fail if
 * they settle what it held, which goes back. */
static void end_named(struct channel *ch)
{
	struct session_transaction *t, *next;
	struct error err;

	for (t = TAILQ_FIRST(&ch->session->named); t; t = next) {
		next = TAILQ_NEXT(t, named_link);
		if (t->channel == ch) {
			TAILQ_REMOVE(&ch->session->named, t, named_link);
			destroy(t);
		} else if (settles_in(t, ch)) {
			error_set(&err, TIDE_ELEASE,
				  "it settles messages of a channel that has ended");
			session_transaction_spoil(t, &err);
		}
	}
}

void session_transaction_end(struct channel *ch)
{
	struct session_transaction *t = ch->session->committing;
	struct error err;

	if (ch->transaction)
		destroy(ch->transaction);
	ch->transaction = NULL;
	end_named(ch);
	if (!t || (t->channel != ch && !settles_in(t, ch)))
		return;
	leave(t);
	error_set(&err, TIDE_ENOTFOUND, "the channel was closed");
	reply_error(t->reply, &err);
	destroy(t);
}

#define NOTHING_APPLIED "nothing was applied: "

static void on_committed(struct waiter *w)
{
	struct committing *c = container_of(w, struct committing, waiter);
	struct error err;

	if (w->status < 0) {
		c->service->transactions.failed++;
		error_set(&err, w->status, NOTHING_APPLIED "%s",
			  w->text ? w->text : error_text(w->status));
		reply_error(c->reply, &err);
	} else {
		c->service->transactions.committed++;
		reply_counts(c->reply, c->result.published, c->result.settled);
	}
	mem_free(c);
}

static int settle_tag(struct session_transaction *t, const struct kept_request *kept,
		      const struct kept_tag *at, struct error *err)
{
	const struct transaction_settling what = { .cause = session_settle_cause(
							   kept->settle.how),
						   .delay_ms = kept->settle.ms,
						   .reason = kept->settle.reason,
						   .number = kept->number };
	struct entry *e = held_from(&at->channel->held, at->tag);

	if (!e || e->tag != at->tag) {
		channel_refuse_tag(at->channel, at->tag, err);
		return error_set(err, err->code, "request %u: %s", kept->number,
				 err->text);
	}
	transaction_settle(t->deciding, e, &what);
	return TIDE_OK;
}

static int settle_kept(struct session_transaction *t, struct error *err)
{
	const struct kept_tag *at = t->tags;

	for (size_t i = 0; i < t->count; i++)
		for (size_t n = t->requests[i].tag_count; n > 0; n--, at++)
			if (settle_tag(t, &t->requests[i], at, err) < 0)
				return err->code;
	return TIDE_OK;
}

/* The permissions of the user can have changed since the requests. */
static int check_writes(const struct session_transaction *t, struct error *err)
{
	struct session *s = t->session;

	if (subject_is_free(&s->subject))
		return TIDE_OK;
	for (size_t i = 0; i < t->count; i++) {
		const struct kept_request *kept = &t->requests[i];

		if (kept->kind == KEPT_PUBLISH &&
		    session_access_check_write(s, kept->msg->exchange, kept->msg->key,
					       err) < 0)
			return error_set(err, err->code, "request %u: %s", kept->number,
					 err->text);
	}
	return TIDE_OK;
}

/* The filters of the publishes have run. */
static int commit(struct session_transaction *t, struct error *err)
{
	struct committing *c;
	int rc;

	/* The filters may have taken some turns. */
	if (check_writes(t, err) < 0 || settle_kept(t, err) < 0)
		return err->code;
	c = mem_alloc(sizeof(*c));
	waiter_init(&c->waiter, on_committed);
	c->service = t->session->service;
	c->reply = t->reply;
	rc = transaction_commit(t->deciding, &c->waiter, &c->result, err);
	if (rc < 0) {
		mem_free(c);
		return rc;
	}
	unmark(t);
	waiter_done(&c->waiter, TIDE_OK, NULL);
	return TIDE_OK;
}

/* Go on with a COMMIT. False: the slice is spent. */
static bool go_on(struct session_transaction *t)
{
	struct service *service = t->session->service;
	struct error err;
	int rc = transaction_filter(t->deciding, &err);

	if (rc == TIDE_AGAIN)
		return false;
	leave(t);
	if (rc == TIDE_OK)
		rc = commit(t, &err);
	if (rc < 0) {
		service->transactions.failed++;
		error_set(&err, rc, NOTHING_APPLIED "%s", err.text);
		reply_error(t->reply, &err);
	}
	destroy(t);
	service_pressure_check(service);
	return true;
}

static void start(struct session_transaction *t)
{
	t->deciding = transaction_create(t->session->vhost, &t->session->subject);
	for (size_t i = 0; i < t->count; i++) {
		const struct kept_request *kept = &t->requests[i];

		if (kept->kind == KEPT_PUBLISH)
			transaction_publish_take(t->deciding, msg_ref(kept->msg),
						 kept->is_mandatory, kept->number);
	}
}

static bool has_publishes(const struct session_transaction *t)
{
	return t->count > 0 && t->messages > t->tag_count;
}

static int check_commit(const struct session_transaction *t, struct error *err)
{
	if (t->failure.code < 0)
		return error_set(err, t->failure.code, NOTHING_APPLIED "request %u: %s",
				 t->failed, t->failure.text);
	if (t->session->broker->is_draining && has_publishes(t))
		return error_set(err, TIDE_ESHUTDOWN,
				 NOTHING_APPLIED "the broker is stopping");
	if (check_writes(t, err) < 0)
		return error_set(err, err->code, NOTHING_APPLIED "%s", err->text);
	return TIDE_OK;
}

int session_transaction_commit(struct channel *ch, struct slice name, struct reply *r,
			       struct error *err)
{
	struct session_transaction *t = take(ch, name, err);
	struct session *s = ch->session;
	struct transactions *all = &s->service->transactions;

	if (!t)
		return err->code;
	t->reply = r;
	if (check_commit(t, err) < 0) {
		all->failed++;
		destroy(t);
		return err->code;
	}
	start(t);
	if (TAILQ_EMPTY(&all->committing) && go_on(t))
		return TIDE_OK;
	s->committing = t;
	TAILQ_INSERT_TAIL(&all->committing, t, link);
	return TIDE_OK;
}

void session_transaction_turn(struct service *service)
{
	struct session_transaction *t;
	struct pace *pace = &service->broker->pace;

	/* One after the other: what is decided for a large one takes room. */
	while ((t = TAILQ_FIRST(&service->transactions.committing)) != NULL) {
		struct session *s = t->session;

		if (!go_on(t))
			return;
		s->ops->on_progress(s->ctx);
		if (pace_is_over(pace))
			return;
	}
}
