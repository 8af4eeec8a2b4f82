#include "tracer.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/random.h"
#include "base/topic_pattern.h"
#include "base/utf8.h"
#include "host/machine.h"
#include "explanation.h"
#include "session_private.h"
#include "trace_event.h"
#include "trace_way.h"
#include "tracer_private.h"

/* An event with more is told without its decision. */
#define EVENT_BYTES ((size_t)64 << 10)
#define PAYLOAD_BYTES 256

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

/* ---- publishes ----------------------------------------------------------------------
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
	const struct traced *f = traced_find(&t->followed, spec->msg->id);

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
static void begin_published(struct trace_event *v, struct tracer *t,
			    const struct watched_publish *p, const struct traced *f,
			    bool is_whole)
{
	static const struct error none = { .code = TIDE_OK };
	const struct msg *m = p->spec->msg;
	struct json *j = &v->json;

	trace_event_begin(v, t, "published", f);
	if (p->spec->connection)
		json_member_int(j, "connection", (int64_t)p->spec->connection);
	if (m->user_len)
		json_member_string(j, "user", msg_user(m));
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "size", (int64_t)m->payload_len);
	if (is_whole && wants_payload(t, f->traces))
		add_payload(j, m);
	if (is_whole) {
		json_member_object(j, "decision");
		explanation_write(t->explanation, p->spec, p->decision,
				  p->refusal ? p->refusal : &none, j);
		json_object_end(j);
	} else {
		json_member_bool(j, "is_cut", true);
	}
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
		struct trace_event v;

		part.traces = i ? with : f->traces & ~with;
		if (!part.traces)
			continue;
		begin_published(&v, t, p, &part, true);
		if (buf_len(&v.text) >= EVENT_BYTES) {
			buf_deinit(&v.text);
			begin_published(&v, t, p, &part, false);
		}
		trace_event_end(&v);
	}
}

static void tell_copies(struct tracer *t, const struct decision *d,
			const struct traced *f)
{
	for (unsigned i = 0; i < d->copy_count; i++) {
		const struct outcome *o = &d->copies[i];
		struct trace_event v;

		trace_event_begin(&v, t, "copied", f);
		json_member_hex(&v.json, "copy", o->msg->id);
		json_member_int(&v.json, "number", o->number);
		json_member_text(&v.json, "by", o->sender);
		traced_follow_copy(&t->followed, o->msg->id, f);
		trace_event_end(&v);
	}
}

static void on_decided(void *ctx, const struct watched_publish *p)
{
	struct tracer *t = ctx;
	struct traced *f;

	if (!t->deciding)
		return;
	f = traced_follow(&t->followed, p->spec->msg->id, t->deciding);
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
	struct trace_event v;

	if (!trace_event_begin_by_id(&v, t, is_refused ? "refused" : "confirmed", r->id))
		return;
	if (is_refused) {
		json_member_text(&v.json, "code", error_wire_code(r->waiter.status));
		json_member_text(&v.json, "error",
				 why ? why : error_text(r->waiter.status));
	} else {
		json_member_int(&v.json, "queues", (int64_t)r->count);
		if (r->is_duplicate)
			json_member_bool(&v.json, "duplicate", true);
	}
	trace_event_end(&v);
}

/* ---- traces -------------------------------------------------------------------------
 */

static struct tracer *create(struct service *s)
{
	struct tracer *t = mem_zalloc(sizeof(*t));

	t->service = s;
	t->random = machine_random();
	traced_init(&t->followed);
	t->follower = (struct follower){ .ctx = t,
					 .on_publish = on_publish,
					 .on_decided = on_decided };
	trace_way_watch(&t->follower);
	return t;
}

void tracer_destroy(struct tracer *t)
{
	if (!t)
		return;
	traced_deinit(&t->followed);
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

	for (f = TAILQ_FIRST(&t->followed.list); f; f = next) {
		next = TAILQ_NEXT(f, link);
		f->traces &= ~(1u << number);
		if (!f->traces)
			traced_unfollow(&t->followed, f);
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
		trace_event_send(trace, text);
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
