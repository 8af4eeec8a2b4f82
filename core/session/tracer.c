#include "tracer.h"

#include <math.h>
#include <stdio.h>

#include "base/id_table.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/topic_pattern.h"
#include "base/utf8.h"
#include "broker/group.h"
#include "broker/member.h"
#include "broker/retry.h"
#include "host/machine.h"
#include "rules/engine/deliver.h"
#include "rules/engine/settled.h"
#include "explanation.h"
#include "session_private.h"

#define TRACES_MAX 8 /* of the broker; a bit each in followed.traces */
/* An event with more is told without its decision. */
#define EVENT_BYTES ((size_t)64 << 10)
#define PAYLOAD_BYTES 256
/* Of all traces. Dead letters may go in a circle for as long as the trace does. */
#define TRACED_MAX 100000
/* Of a range of offsets, so many are looked for one by one. */
#define RANGE_SHORT 64

/* A message that is followed lies in a topic, or is read from there. */
struct traced_place {
	UT_hash_handle hh;
	uint64_t key[3]; /* serial of the topic, partition, offset */
	struct traced *followed;
	struct traced_place *next; /* of the same message */
};

struct traced {
	TAILQ_ENTRY(traced) link;
	uint64_t id;
	uint64_t began_ns;
	unsigned traces; /* who follows it: a bit each */
	struct traced_place *places;
};

struct trace {
	struct tracer *tracer;
	struct channel *channel;
	unsigned number;        /* of its bit */
	struct trace_spec spec; /* its texts are its own */
	uint64_t threshold;     /* of random numbers: what lies below is picked */
	int64_t until_mono_ms;
	unsigned picked;
	uint64_t dropped, told_dropped; /* events */
};

struct tracer {
	struct service *service;
	struct follower follower;
	struct trace *traces[TRACES_MAX];
	unsigned trace_count;
	TAILQ_HEAD(, traced) followed;
	struct id_table by_id;
	struct traced_place *places; /* uthash */
	uint64_t random;
	/* The publish that is being decided. */
	unsigned deciding; /* who follows it */
	uint64_t began_ns;
	struct explanation *explanation;
	struct decision_context context;
	/* The retry script that was asked last, and about which message. */
	struct line_trace failing;
	uint64_t failing_id;
};

/* ---- permissions ---------------------------------------------------------------------
 */

/* A pattern that is a key: of the default exchange, a queue. */
static bool is_name(struct slice pattern)
{
	return !memchr(pattern.data, '*', pattern.len) &&
	       !memchr(pattern.data, '#', pattern.len);
}

static int check_read(struct session *s, const struct trace_spec *spec, struct error *err)
{
	if (subject_may_all(&s->subject, USER_READ) || subject_is_free(&s->subject))
		return TIDE_OK;
	if (tracer_is_all(spec->exchange))
		return error_set(err, TIDE_EDENIED,
				 "TRACE * needs the permission to read all");
	if (spec->exchange.len)
		return session_access_check(s, USER_READ, SUBJECT_EXCHANGE,
					    spec->exchange, err);
	if (is_name(spec->key))
		return session_access_check_queue(s, USER_READ, spec->key, err);
	return error_set(err, TIDE_EDENIED,
			 "TRACE of the default exchange needs the permission to read "
			 "all, or a key that is the name of a queue");
}

int tracer_check(struct session *s, const struct trace_spec *spec, struct error *err)
{
	int rc = session_access_check_tag(s, USER_MONITOR, "TRACE", err);

	return rc == TIDE_OK ? check_read(s, spec, err) : rc;
}

/* ---- events --------------------------------------------------------------------------
 */

/* Begin the text of an event about a message. */
static void begin_event(struct tracer *t, struct buf *text, struct json *j,
			const char *what, const struct traced *f)
{
	double ms = (double)(uv_hrtime() - f->began_ns) / 1e6;

	*j = (struct json){ .out = text };
	json_object_begin(j);
	json_member_text(j, "what", what);
	json_member_int(j, "at", t->service->broker->now_ms);
	json_member_hex(j, "id", f->id);
	json_member_number(j, "ms", round(ms * 1000) / 1000);
}

static void send_text(struct trace *trace, const char *text)
{
	const struct session *s = trace->channel->session;

	s->ops->on_event(s->ctx, trace->channel->number, "trace", text);
}

static void tell_dropped(struct trace *trace)
{
	char text[96];

	if (trace->dropped == trace->told_dropped)
		return;
	snprintf(text, sizeof(text), "{\"what\":\"dropped\",\"events\":%llu}",
		 (unsigned long long)(trace->dropped - trace->told_dropped));
	trace->told_dropped = trace->dropped;
	send_text(trace, text);
}

/* To all of the mask, if their clients read. */
static void tell(struct tracer *t, unsigned traces, struct buf *text)
{
	for (unsigned i = 0; i < TRACES_MAX; i++) {
		struct trace *trace = t->traces[i];
		const struct session *s;

		if (!trace || !(traces & 1u << i))
			continue;
		s = trace->channel->session;
		if (!s->ops->can_take(s->ctx)) {
			trace->dropped++;
			continue;
		}
		tell_dropped(trace);
		send_text(trace, buf_cstr(text));
	}
}

static void end_event(struct tracer *t, const struct traced *f, struct buf *text,
		      struct json *j)
{
	json_object_end(j);
	tell(t, f->traces, text);
	buf_deinit(text);
}

/* ---- messages that are followed ------------------------------------------------------
 */

static struct traced *find(const struct tracer *t, uint64_t id)
{
	return id_table_find(&t->by_id, id);
}

static struct traced *follow(struct tracer *t, uint64_t id, unsigned traces)
{
	struct traced *f = find(t, id);

	if (!f) {
		f = mem_zalloc(sizeof(*f));
		f->id = id;
		f->began_ns = uv_hrtime();
		id_table_add(&t->by_id, id, f);
		TAILQ_INSERT_TAIL(&t->followed, f, link);
	}
	f->traces |= traces;
	return f;
}

/* A copy of one that is followed. */
static void follow_copy(struct tracer *t, uint64_t id, const struct traced *f)
{
	if (t->by_id.count < TRACED_MAX)
		follow(t, id, f->traces);
}

static void unfollow(struct tracer *t, struct traced *f)
{
	struct traced_place *p;

	while ((p = f->places) != NULL) {
		f->places = p->next;
		HASH_DEL(t->places, p);
		mem_free(p);
	}
	TAILQ_REMOVE(&t->followed, f, link);
	id_table_remove(&t->by_id, f->id);
	mem_free(f);
}

static struct traced_place *find_place(const struct tracer *t,
				       const struct record_place *at)
{
	const uint64_t key[3] = { at->topic->serial, at->partition, at->offset };
	struct traced_place *p;

	HASH_FIND(hh, t->places, key, sizeof(key), p);
	return p;
}

static void note_place(struct tracer *t, struct traced *f, const struct record_place *at)
{
	const uint64_t key[3] = { at->topic->serial, at->partition, at->offset };
	struct traced_place *p;

	if (find_place(t, at))
		return;
	p = mem_zalloc(sizeof(*p));
	memcpy(p->key, key, sizeof(key));
	p->followed = f;
	p->next = f->places;
	f->places = p;
	HASH_ADD(hh, t->places, key, sizeof(p->key), p);
}

/* ---- publishes -----------------------------------------------------------------------
 */

static bool picks(struct trace *trace, const struct decide_spec *spec)
{
	const struct trace_spec *s = &trace->spec;
	const struct msg *m = spec->msg;

	return trace->picked < s->max && spec->vhost == trace->channel->session->vhost &&
	       (tracer_is_all(s->exchange) || slice_is_equal(s->exchange, m->exchange)) &&
	       topic_pattern_matches(s->key, m->key) &&
	       random_next(&trace->tracer->random) <= trace->threshold;
}

static void on_publish(void *ctx, struct decide_spec *spec)
{
	struct tracer *t = ctx;
	const struct traced *f = find(t, spec->msg->id);

	t->deciding = f ? f->traces : 0;
	for (unsigned i = 0; i < TRACES_MAX; i++) {
		struct trace *trace = t->traces[i];

		if (!trace || t->deciding & 1u << i || !picks(trace, spec))
			continue;
		trace->picked++;
		t->deciding |= 1u << i;
	}
	if (!t->deciding)
		return;
	t->began_ns = uv_hrtime();
	t->explanation = explanation_create();
	explanation_watch(t->explanation, spec);
	/* That of a live publish, but for being watched. */
	if (!spec->context) {
		t->context = (struct decision_context){ 0 };
		spec->context = &t->context;
	}
	explanation_watch_scripts(t->explanation, spec->context);
}

static bool wants_payload(const struct tracer *t, unsigned traces)
{
	for (unsigned i = 0; i < TRACES_MAX; i++)
		if (traces & 1u << i && t->traces[i] && t->traces[i]->spec.has_payload)
			return true;
	return false;
}

static void add_payload(struct json *j, const struct msg *m)
{
	size_t len = m->payload_len;

	if (len > PAYLOAD_BYTES)
		len = utf8_whole(m->payload, PAYLOAD_BYTES);
	json_member_string(j, "payload", (struct slice){ m->payload, len });
}

/* The event of a publish, with or without what it carries. */
static void write_published(struct tracer *t, struct buf *text,
			    const struct watched_publish *p, const struct traced *f,
			    bool is_whole)
{
	static const struct error none = { .code = TIDE_OK };
	const struct msg *m = p->spec->msg;
	struct json j;

	begin_event(t, text, &j, "published", f);
	if (p->spec->connection)
		json_member_int(&j, "connection", (int64_t)p->spec->connection);
	if (m->user_len)
		json_member_string(&j, "user", msg_user(m));
	json_member_string(&j, "exchange", msg_exchange_word(m));
	json_member_string(&j, "key", m->key);
	json_member_int(&j, "size", (int64_t)m->payload_len);
	if (is_whole && wants_payload(t, f->traces))
		add_payload(&j, m);
	if (is_whole) {
		json_member_object(&j, "decision");
		explanation_write(t->explanation, p->spec, p->decision,
				  p->refusal ? p->refusal : &none, &j);
		json_object_end(&j);
	} else {
		json_member_bool(&j, "is_cut", true);
	}
	json_object_end(&j);
}

/* One follower may want the payload, and another not: each text is written once. */
static void tell_published(struct tracer *t, const struct watched_publish *p,
			   const struct traced *f)
{
	struct traced part = *f;
	unsigned with = 0;

	for (unsigned i = 0; i < TRACES_MAX; i++)
		if (wants_payload(t, f->traces & 1u << i))
			with |= 1u << i;
	for (int i = 0; i < 2; i++) {
		struct buf text = { 0 };

		part.traces = i ? with : f->traces & ~with;
		if (!part.traces)
			continue;
		write_published(t, &text, p, &part, true);
		if (buf_len(&text) > EVENT_BYTES) {
			buf_clear(&text);
			write_published(t, &text, p, &part, false);
		}
		tell(t, part.traces, &text);
		buf_deinit(&text);
	}
}

static void tell_copies(struct tracer *t, const struct decision *d,
			const struct traced *f)
{
	for (unsigned i = 0; i < d->copy_count; i++) {
		const struct outcome *o = &d->copies[i];
		struct buf text = { 0 };
		struct json j;

		begin_event(t, &text, &j, "copied", f);
		json_member_hex(&j, "copy", o->msg->id);
		json_member_int(&j, "number", o->number);
		json_member_text(&j, "by", o->sender);
		follow_copy(t, o->msg->id, f);
		end_event(t, f, &text, &j);
	}
}

static void on_decided(void *ctx, const struct watched_publish *p)
{
	struct tracer *t = ctx;
	struct traced *f;

	if (!t->deciding)
		return;
	f = follow(t, p->spec->msg->id, t->deciding);
	f->began_ns = t->began_ns;
	tell_published(t, p, f);
	tell_copies(t, p->decision, f);
	explanation_destroy(t->explanation);
	t->explanation = NULL;
	t->deciding = 0;
}

void tracer_confirm(struct tracer *t, const struct reply *r, const char *why)
{
	bool is_refused = r->waiter.status < 0;
	const struct traced *f = find(t, r->id);
	struct buf text = { 0 };
	struct json j;

	if (!f)
		return;
	begin_event(t, &text, &j, is_refused ? "refused" : "confirmed", f);
	if (is_refused) {
		json_member_text(&j, "code", error_wire_code(r->waiter.status));
		json_member_text(&j, "error", why ? why : error_text(r->waiter.status));
	} else {
		json_member_int(&j, "queues", (int64_t)r->count);
		if (r->is_duplicate)
			json_member_bool(&j, "duplicate", true);
	}
	end_event(t, f, &text, &j);
}

/* ---- deliveries ----------------------------------------------------------------------
 */

static void add_consumer(struct json *j, const struct consumer *c)
{
	const struct channel *ch =
		c->holder ? container_of(c->holder, struct channel, holder) : NULL;

	if (ch) {
		json_member_int(j, "connection", (int64_t)ch->session->number);
		json_member_int(j, "channel", ch->number);
	}
	json_member_text(j, "sid", c->getter ? "-" : subscription_of(c)->sid);
	if (c->is_auto_ack)
		json_member_bool(j, "auto_ack", true);
}

static void on_offered(void *ctx, const struct queue *q, const struct deliver_pass *p,
		       const struct error *failure)
{
	struct tracer *t = ctx;
	const struct traced *f = find(t, p->msg->id);
	struct buf text = { 0 };
	struct json j;

	if (!f)
		return;
	begin_event(t, &text, &j, "offered", f);
	json_member_text(&j, q->topic ? "topic" : "queue", q->name);
	json_member_text(&j, "script", p->file);
	json_member_int(&j, "line", p->line);
	json_member_text(&j, failure ? "error" : "then",
			 failure ? failure->text : deliver_verdict_names[p->verdict]);
	if (!failure && p->verdict == DELIVER_LATER)
		json_member_int(&j, "delay_ms", p->delay_ms);
	if (!failure && p->reason[0])
		json_member_text(&j, "reason", p->reason);
	if (p->head)
		msg_write_headers(p->head, &j);
	end_event(t, f, &text, &j);
}

static void on_delivered(void *ctx, const struct consumer *c, const struct entry *e)
{
	struct tracer *t = ctx;
	const struct traced *f = find(t, e->id);
	struct buf text = { 0 };
	struct json j;

	if (!f)
		return;
	begin_event(t, &text, &j, "delivered", f);
	json_member_text(&j, "queue", entry_queue(e)->name);
	add_consumer(&j, c);
	if (e->tag)
		json_member_int(&j, "tag", (int64_t)e->tag);
	json_member_int(&j, "attempt", c->is_auto_ack ? e->attempts + 1 : e->attempts);
	end_event(t, f, &text, &j);
}

static void on_acked(void *ctx, const struct entry *e)
{
	struct tracer *t = ctx;
	const struct traced *f = find(t, e->id);
	struct buf text = { 0 };
	struct json j;

	if (!f)
		return;
	begin_event(t, &text, &j, "acked", f);
	json_member_text(&j, "queue", entry_queue(e)->name);
	json_member_int(&j, "held_ms", t->service->broker->now_ms - e->held_unix_ms);
	end_event(t, f, &text, &j);
}

static struct line_trace *on_failing(void *ctx, uint64_t id)
{
	struct tracer *t = ctx;

	if (!find(t, id))
		return NULL;
	t->failing = (struct line_trace){ 0 };
	t->failing_id = id;
	return &t->failing;
}

/* The line that decided about the message, if a script did. */
static void add_line(struct json *j, struct tracer *t, uint64_t id)
{
	if (t->failing_id != id || t->failing.line == 0)
		return;
	json_member_int(j, "line", t->failing.line);
	t->failing.line = 0;
}

/* What is decided of a message that comes back, by the clock `now_ms`. */
static void add_fate(struct json *j, const struct retry_fate *fate, int64_t now_ms)
{
	bool is_later = fate->action == RETRY_AFTER && fate->due_ms > now_ms;

	json_member_text(j, "reason", fate->reason ? fate->reason : "returned");
	json_member_text(j, "then",
			 is_later ? "delay" : strategy_action_names[fate->action]);
	if (is_later)
		json_member_int(j, "delay_ms", fate->due_ms - now_ms);
	if (fate->rule)
		json_member_text(j, "by", fate->rule);
	if (fate->extra)
		strategy_write_extra(fate->extra, j);
}

static void on_returned(void *ctx, const struct entry *e, const struct retry_fate *fate)
{
	struct tracer *t = ctx;
	const struct traced *f = find(t, e->id);
	struct buf text = { 0 };
	struct json j;

	if (!f)
		return;
	begin_event(t, &text, &j, "returned", f);
	json_member_text(&j, "queue", entry_queue(e)->name);
	add_fate(&j, fate, t->service->broker->now_ms);
	add_line(&j, t, e->id);
	json_member_int(&j, "attempts", e->attempts);
	json_member_int(&j, "failures", e->failures + fate->is_failure);
	end_event(t, f, &text, &j);
}

static void on_settled(void *ctx, const struct queue *q, const struct msg *m,
		       const struct settled_step *step)
{
	struct tracer *t = ctx;
	const struct traced *f = find(t, m->id);
	struct buf text = { 0 };
	struct json j;

	if (!f)
		return;
	begin_event(t, &text, &j, "settled", f);
	json_member_text(&j, "queue", q->name);
	json_member_text(&j, "script", step->file);
	json_member_int(&j, "line", step->line);
	json_member_text(&j, "event", settled_event_names[step->event]);
	if (step->failure->code < 0)
		json_member_text(&j, "error", step->failure->text);
	else
		json_member_int(&j, "copies", step->copies);
	end_event(t, f, &text, &j);
}

static void on_dead(void *ctx, const struct queue *q, uint64_t id, const struct msg *copy)
{
	struct tracer *t = ctx;
	const struct traced *f = find(t, id);
	struct buf text = { 0 };
	struct json j;

	if (!f)
		return;
	begin_event(t, &text, &j, "dead-lettered", f);
	json_member_text(&j, "queue", q->name);
	json_member_hex(&j, "copy", copy->id);
	json_member_string(&j, "exchange", msg_exchange_word(copy));
	json_member_string(&j, "key", copy->key);
	follow_copy(t, copy->id, f);
	end_event(t, f, &text, &j);
}

/* ---- topics --------------------------------------------------------------------------
 */

static void add_place(struct json *j, const struct record_place *at)
{
	json_member_text(j, "topic", at->topic->name);
	if (at->group)
		json_member_text(j, "group", at->group);
	json_member_int(j, "partition", at->partition);
	json_member_int(j, "offset", (int64_t)at->offset);
}

static const char *group_name(const struct consumer *c)
{
	if (c->getter)
		return c->getter->group ? c->getter->group->name : NULL;
	return c->member ? c->member->group->name : NULL;
}

static void on_record(void *ctx, const struct consumer *c,
		      const struct record_delivery *d)
{
	struct tracer *t = ctx;
	struct traced *f = find(t, d->record->msg.id);
	const struct record_place at = { c->queue, group_name(c), d->partition,
					 d->record->offset };
	struct buf text = { 0 };
	struct json j;

	if (!f)
		return;
	note_place(t, f, &at);
	begin_event(t, &text, &j, "delivered", f);
	add_place(&j, &at);
	add_consumer(&j, c);
	if (d->tag)
		json_member_int(&j, "tag", (int64_t)d->tag);
	json_member_int(&j, "attempt", d->attempt);
	end_event(t, f, &text, &j);
}

static void tell_record(struct tracer *t, const struct record_place *at, const char *what,
			const struct retry_fate *fate)
{
	const struct traced_place *p = find_place(t, at);
	struct buf text = { 0 };
	struct json j;

	if (!p)
		return;
	begin_event(t, &text, &j, what, p->followed);
	add_place(&j, at);
	if (fate) {
		add_fate(&j, fate, t->service->broker->mono_ms);
		add_line(&j, t, p->followed->id);
	}
	end_event(t, p->followed, &text, &j);
}

static void on_records_acked(void *ctx, const struct record_place *first, uint64_t count)
{
	struct tracer *t = ctx;
	struct record_place at = *first;
	struct traced_place *p, *next;

	if (count <= RANGE_SHORT) {
		for (; at.offset < first->offset + count; at.offset++)
			tell_record(t, &at, "acked", NULL);
		return;
	}
	HASH_ITER (hh, t->places, p, next) {
		at.offset = p->key[2];
		if (p->key[0] == first->topic->serial && p->key[1] == first->partition &&
		    at.offset - first->offset < count)
			tell_record(t, &at, "acked", NULL);
	}
}

static void on_record_failed(void *ctx, const struct record_place *at,
			     const struct retry_fate *fate)
{
	tell_record(ctx, at, "returned", fate);
}

/* ---- traces --------------------------------------------------------------------------
 */

static struct tracer *create(struct service *s)
{
	struct tracer *t = mem_zalloc(sizeof(*t));

	t->service = s;
	t->random = machine_random();
	TAILQ_INIT(&t->followed);
	t->follower = (struct follower){ .ctx = t,
					 .on_publish = on_publish,
					 .on_decided = on_decided,
					 .on_offered = on_offered,
					 .on_failing = on_failing,
					 .on_delivered = on_delivered,
					 .on_acked = on_acked,
					 .on_returned = on_returned,
					 .on_settled = on_settled,
					 .on_dead = on_dead,
					 .on_record = on_record,
					 .on_records_acked = on_records_acked,
					 .on_record_failed = on_record_failed };
	return t;
}

void tracer_destroy(struct tracer *t)
{
	if (!t)
		return;
	id_table_deinit(&t->by_id);
	mem_free(t);
}

static unsigned free_number(const struct tracer *t)
{
	unsigned i = 0;

	while (i < TRACES_MAX && t->traces[i])
		i++;
	return i;
}

int tracer_start(struct channel *ch, const struct trace_spec *spec, struct error *err)
{
	struct service *s = ch->session->service;
	struct tracer *t = s->tracer;
	struct trace *trace;

	if (!t)
		t = s->tracer = create(s);
	if (t->trace_count == TRACES_MAX)
		return error_set(err, TIDE_ELIMIT,
				 "the broker has at most %d traces at a time",
				 TRACES_MAX);
	trace = ch->trace = mem_zalloc(sizeof(*trace));
	*trace = (struct trace){ .tracer = t,
				 .channel = ch,
				 .number = free_number(t),
				 .spec = *spec,
				 .until_mono_ms = s->broker->mono_ms + spec->for_ms };
	trace->spec.exchange.data = mem_strndup(spec->exchange.data, spec->exchange.len);
	trace->spec.key.data = mem_strndup(spec->key.data, spec->key.len);
	trace->threshold =
		spec->share >= 1 ? UINT64_MAX : (uint64_t)(spec->share * 0x1p64);
	t->traces[trace->number] = trace;
	t->trace_count++;
	s->broker->follower = &t->follower;
	return TIDE_OK;
}

static void forget(struct tracer *t, unsigned number)
{
	struct traced *f, *next;

	for (f = TAILQ_FIRST(&t->followed); f; f = next) {
		next = TAILQ_NEXT(f, link);
		f->traces &= ~(1u << number);
		if (!f->traces)
			unfollow(t, f);
	}
	t->deciding &= ~(1u << number);
	t->traces[number] = NULL;
	if (--t->trace_count == 0)
		t->service->broker->follower = NULL;
}

void tracer_end_take(struct trace *trace, const char *why)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "{\"what\":\"end\",\"why\":\"%s\",\"messages\":%u,\"dropped\":%llu}",
		 why, trace->picked, (unsigned long long)trace->dropped);
	if (!trace->channel->session->is_closed)
		send_text(trace, text);
	trace->channel->trace = NULL;
	forget(trace->tracer, trace->number);
	mem_free((char *)trace->spec.exchange.data);
	mem_free((char *)trace->spec.key.data);
	mem_free(trace);
}

void tracer_recheck(struct session *s)
{
	const struct tracer *t = s->service->tracer;
	struct error ignored;

	for (unsigned i = 0; t && i < TRACES_MAX; i++)
		if (t->traces[i] && t->traces[i]->channel->session == s &&
		    tracer_check(s, &t->traces[i]->spec, &ignored) < 0)
			tracer_end_take(t->traces[i], "denied");
}

void tracer_turn(struct service *s)
{
	struct tracer *t = s->tracer;

	for (unsigned i = 0; t && i < TRACES_MAX; i++)
		if (t->traces[i] && t->traces[i]->until_mono_ms <= s->broker->mono_ms)
			tracer_end_take(t->traces[i], "time");
}

int64_t tracer_due_ms(const struct service *s)
{
	const struct broker *b = s->broker;
	const struct tracer *t = s->tracer;
	int64_t due_ms = 0;

	for (unsigned i = 0; t && i < TRACES_MAX; i++)
		if (t->traces[i])
			due_ms = heap_earlier(due_ms,
					      b->now_ms + t->traces[i]->until_mono_ms -
						      b->mono_ms);
	return due_ms;
}
