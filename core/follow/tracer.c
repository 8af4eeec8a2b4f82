#include "tracer.h"

#include <math.h>
#include <stdio.h>
#include <sys/queue.h>

#include "base/container.h"
#include "base/id_table.h"
#include "base/mem.h"
#include "base/bytes.h"
#include "base/table.h"
#include "base/topic_pattern.h"
#include "base/utf8.h"
#include "broker/broker.h"
#include "broker/decide.h"
#include "broker/fate.h"
#include "explanation.h"
#include "host/machine.h"
#include "rules/engine/deliver.h"
#include "rules/engine/settled.h"

#define TRACES_MAX 8 /* of the broker; a bit each in traced.traces */
/* Messages of all traces. Dead letters may go in a circle for as long as the trace does.
 */
#define TRACED_MAX 100000
#define EVENT_BYTES ((size_t)64 << 10) /* a larger event is told without its decision */
#define PAYLOAD_BYTES 256
#define RANGE_SHORT 64 /* offsets that are looked for one by one */

/* A message that is followed lies in a topic, or is read from there. */
struct traced_place {
	UT_hash_handle hh;
	uint64_t key[3]; /* serial of the topic, partition, offset */
	struct traced *followed;
	struct traced_place *next; /* of the same message */
};

/* A message that is followed. */
struct traced {
	TAILQ_ENTRY(traced) link;
	uint64_t id;
	uint64_t began_ns;
	unsigned traces; /* who follows it: a bit each */
	struct traced_place *places;
};

struct trace {
	struct tracer *tracer;
	struct trace_reader reader;
	unsigned number;        /* of its bit */
	struct trace_spec spec; /* its texts are its own */
	uint64_t threshold;     /* of random numbers: what lies below is picked */
	int64_t until_mono_ms;
	unsigned picked;
	uint64_t dropped, told_dropped; /* events */
};

struct tracer {
	struct follower follower;
	struct broker *broker;
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

/* The messages that are followed. */

static struct traced *find_traced(const struct tracer *t, uint64_t id)
{
	return id_table_find(&t->by_id, id);
}

static struct traced *follow_message(struct tracer *t, uint64_t id, unsigned traces)
{
	struct traced *f = find_traced(t, id);

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

static void follow_copy(struct tracer *t, uint64_t id, const struct traced *f)
{
	if (t->by_id.items.count < TRACED_MAX)
		follow_message(t, id, f->traces);
}

static void forget_message(struct tracer *t, struct traced *f)
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

/* Events. */

struct event {
	const struct traced *followed;
	struct buf text;
	struct json json; /* writes `text`: the address of an event does not change */
};

static void begin_event(struct event *v, const struct tracer *t, const char *what,
			const struct traced *f)
{
	double ms = (double)(uv_hrtime() - f->began_ns) / 1e6;

	*v = (struct event){ .followed = f };
	v->json.out = &v->text;
	json_object_begin(&v->json);
	json_member_text(&v->json, "what", what);
	json_member_int(&v->json, "at", t->broker->now_ms);
	json_member_hex(&v->json, "id", f->id);
	json_member_number(&v->json, "ms", round(ms * 1000) / 1000);
}

static void send_event(const struct trace *trace, const char *text)
{
	trace->reader.on_event(trace->reader.ctx, text);
}

static void tell_dropped(struct trace *trace)
{
	char text[96];

	if (trace->dropped == trace->told_dropped)
		return;
	snprintf(text, sizeof(text), "{\"what\":\"dropped\",\"events\":%llu}",
		 (unsigned long long)(trace->dropped - trace->told_dropped));
	trace->told_dropped = trace->dropped;
	send_event(trace, text);
}

/* Tell the event to all who follow its message and read, and free it. */
static void end_event(struct event *v, const struct tracer *t)
{
	json_object_end(&v->json);
	for (unsigned i = 0; i < TRACES_MAX; i++) {
		struct trace *trace = t->traces[i];

		if (!trace || !(v->followed->traces & 1u << i))
			continue;
		if (!trace->reader.can_take(trace->reader.ctx)) {
			trace->dropped++;
			continue;
		}
		tell_dropped(trace);
		send_event(trace, buf_cstr(&v->text));
	}
	buf_deinit(&v->text);
}

/* The decision of a publish. */

static bool picks(struct trace *trace, const struct decide_spec *spec)
{
	const struct trace_spec *s = &trace->spec;
	const struct msg *m = spec->msg;

	return trace->picked < s->max && spec->vhost == *trace->reader.vhost &&
	       (tracer_is_all(s->exchange) || slice_is_equal(s->exchange, m->exchange)) &&
	       topic_pattern_matches(s->key, m->key) &&
	       random_next(&trace->tracer->random) <= trace->threshold;
}

static void begin_publish(struct tracer *t, struct step *step)
{
	const struct traced *f = find_traced(t, step->id);

	t->deciding = f ? f->traces : 0;
	for (unsigned i = 0; i < TRACES_MAX; i++) {
		struct trace *trace = t->traces[i];

		if (!trace || t->deciding & 1u << i || !picks(trace, step->spec))
			continue;
		trace->picked++;
		t->deciding |= 1u << i;
	}
	if (!t->deciding)
		return;
	t->began_ns = uv_hrtime();
	t->explanation = explanation_create();
	/* The context of a live publish, but for being watched. */
	if (!step->context) {
		t->context = (struct decision_context){ 0 };
		step->context = &t->context;
	}
	explanation_watch(t->explanation, step->spec, step->context);
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
static void begin_published(struct event *v, struct tracer *t, const struct step *step,
			    const struct traced *f, bool is_whole)
{
	static const struct error none = { .code = TIDE_OK };
	const struct msg *m = step->spec->msg;
	struct json *j = &v->json;

	begin_event(v, t, "published", f);
	if (step->spec->connection)
		json_member_int(j, "connection", (int64_t)step->spec->connection);
	if (m->user_len)
		json_member_string(j, "user", msg_user(m));
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "size", (int64_t)m->payload_len);
	if (is_whole && wants_payload(t, f->traces))
		add_payload(j, m);
	if (is_whole) {
		json_member_object(j, "decision");
		explanation_write(t->explanation, step->spec, step->decision,
				  step->error ? step->error : &none, j);
		json_object_end(j);
	} else {
		json_member_bool(j, "is_cut", true);
	}
}

/* One follower may want the payload, and another not: each text is written once. */
static void tell_published(struct tracer *t, const struct step *step,
			   const struct traced *f)
{
	struct traced part = *f;
	unsigned with = 0;

	for (unsigned i = 0; i < TRACES_MAX; i++)
		if (wants_payload(t, f->traces & 1u << i))
			with |= 1u << i;
	for (int i = 0; i < 2; i++) {
		struct event v;

		part.traces = i ? with : f->traces & ~with;
		if (!part.traces)
			continue;
		begin_published(&v, t, step, &part, true);
		if (buf_len(&v.text) >= EVENT_BYTES) {
			buf_deinit(&v.text);
			begin_published(&v, t, step, &part, false);
		}
		end_event(&v, t);
	}
}

static void end_publish(struct tracer *t, const struct step *step)
{
	const struct decision *d = step->decision;
	struct traced *f;
	struct event v;

	if (!t->deciding)
		return;
	f = follow_message(t, step->id, t->deciding);
	f->began_ns = t->began_ns;
	tell_published(t, step, f);
	for (unsigned i = 0; i < d->copy_count; i++) {
		const struct outcome *o = &d->copies[i];

		begin_event(&v, t, "copied", f);
		json_member_hex(&v.json, "copy", o->msg->id);
		json_member_int(&v.json, "number", o->number);
		json_member_text(&v.json, "by", o->sender);
		follow_copy(t, o->msg->id, f);
		end_event(&v, t);
	}
	explanation_destroy(t->explanation);
	t->explanation = NULL;
	t->deciding = 0;
}

/* The steps of a message after its publish: the members of their events. */

static void write_place(struct json *j, const struct step *s)
{
	const struct record_place *at = s->place;

	if (!at) {
		json_member_text(j, "queue", entry_queue(s->entry)->name);
		return;
	}
	json_member_text(j, "topic", at->topic->name);
	if (at->group)
		json_member_text(j, "group", at->group);
	json_member_int(j, "partition", at->partition);
	json_member_int(j, "offset", (int64_t)at->offset);
}

static void write_offered(struct tracer *t, struct json *j, const struct step *s)
{
	const struct deliver_pass *p = s->deliver;

	json_member_text(j, s->queue->topic ? "topic" : "queue", s->queue->name);
	json_member_text(j, "script", p->file);
	json_member_int(j, "line", p->line);
	json_member_text(j, s->error ? "error" : "then",
			 s->error ? s->error->text : deliver_verdict_names[p->verdict]);
	if (!s->error && p->verdict == DELIVER_LATER)
		json_member_int(j, "delay_ms", p->delay_ms);
	if (!s->error && p->reason[0])
		json_member_text(j, "reason", p->reason);
	if (p->head)
		msg_write_headers(p->head, j);
}

static void write_delivered(struct tracer *t, struct json *j, const struct step *s)
{
	const struct consumer *c = s->consumer;
	uint64_t tag = s->place ? s->record->tag : s->entry->tag;
	struct consumer_view view;

	write_place(j, s);
	c->lease.holder->describe(c->lease.holder, c, &view);
	json_member_int(j, "connection", (int64_t)view.connection);
	json_member_int(j, "channel", view.channel);
	json_member_text(j, "sid", view.sid ? view.sid : "-");
	if (c->is_auto_ack)
		json_member_bool(j, "auto_ack", true);
	if (tag)
		json_member_int(j, "tag", (int64_t)tag);
	json_member_int(j, "attempt",
			s->place ? s->record->attempt : s->entry->failures + 1);
}

static void write_acked(struct tracer *t, struct json *j, const struct step *s)
{
	write_place(j, s);
	if (!s->place && s->entry->state == ENTRY_UNACKED)
		json_member_int(j, "held_ms", t->broker->now_ms - s->entry->at_unix_ms);
}

static void write_returned(struct tracer *t, struct json *j, const struct step *s)
{
	const struct fate *fate = s->fate;
	/* The clock that its time is by. */
	int64_t now_ms = s->place ? t->broker->mono_ms : t->broker->now_ms;
	bool is_later = fate->action == RETRY_AFTER && fate->due_ms > now_ms;

	write_place(j, s);
	json_member_text(j, "reason", fate->reason ? fate->reason : "returned");
	json_member_text(j, "then",
			 is_later ? "delay" : strategy_action_names[fate->action]);
	if (is_later)
		json_member_int(j, "delay_ms", fate->due_ms - now_ms);
	if (fate->rule)
		json_member_text(j, "by", fate->rule);
	if (fate->extra)
		strategy_write_extra(fate->extra, j);
	if (t->failing_id == s->id && t->failing.line > 0) {
		json_member_int(j, "line", t->failing.line);
		t->failing.line = 0;
	}
	if (s->place)
		return;
	json_member_int(j, "deliveries", s->entry->deliveries);
	json_member_int(j, "failures", s->entry->failures + fate->is_failure);
}

static void write_settled(struct tracer *t, struct json *j, const struct step *s)
{
	const struct settled_step *by = s->settled_step;

	json_member_text(j, s->queue->topic ? "topic" : "queue", s->queue->name);
	json_member_text(j, "script", by->file);
	json_member_int(j, "line", by->line);
	json_member_text(j, "event", script_kind_events[by->event]);
	if (by->failure->code < 0)
		json_member_text(j, "error", by->failure->text);
	else
		json_member_int(j, "copies", by->copies);
}

static void write_dead(struct tracer *t, struct json *j, const struct step *s)
{
	json_member_text(j, "queue", s->queue->name);
	json_member_hex(j, "copy", s->copy->id);
	json_member_string(j, "exchange", msg_exchange_word(s->copy));
	json_member_string(j, "key", s->copy->key);
	follow_copy(t, s->copy->id, find_traced(t, s->id));
}

static void write_refused(struct tracer *t, struct json *j, const struct step *s)
{
	json_member_text(j, "code", error_wire_code(s->confirm->status));
	json_member_text(j, "error", s->confirm->text);
}

static void write_confirmed(struct tracer *t, struct json *j, const struct step *s)
{
	json_member_int(j, "queues", (int64_t)s->confirm->queues);
	if (s->confirm->is_duplicate)
		json_member_bool(j, "duplicate", true);
}

static const struct event_kind {
	const char *what;
	void (*write)(struct tracer *t, struct json *j, const struct step *s);
} kinds[] = {
	[STEP_ANSWERED] = { "offered", write_offered },
	[STEP_DELIVERED] = { "delivered", write_delivered },
	[STEP_ACKED] = { "acked", write_acked },
	[STEP_RETURNED] = { "returned", write_returned },
	[STEP_SETTLED] = { "settled", write_settled },
	[STEP_COPIED] = { "dead-lettered", write_dead },
	[STEP_CONFIRMED] = { "confirmed", write_confirmed },
};
static const struct event_kind refused = { "refused", write_refused };

static void tell_event(struct tracer *t, const struct event_kind *kind,
		       const struct traced *f, const struct step *s)
{
	struct event v;

	if (!f)
		return;
	begin_event(&v, t, kind->what, f);
	kind->write(t, &v.json, s);
	end_event(&v, t);
}

/* The message lies at an offset of a topic. */
static void tell_place(struct tracer *t, const struct step *s, uint64_t offset)
{
	struct record_place at = *s->place;
	struct step one = *s;
	const struct traced_place *p;

	at.offset = offset;
	one.place = &at;
	p = find_place(t, &at);
	if (!p)
		return;
	one.id = p->followed->id;
	tell_event(t, &kinds[s->kind], p->followed, &one);
}

/* All of a range, which may be long, or the one place of the step. */
static void tell_places(struct tracer *t, const struct step *s)
{
	const struct record_place *first = s->place;
	uint64_t count = s->kind == STEP_ACKED ? s->count : 1;
	struct traced_place *p, *next;

	if (count <= RANGE_SHORT) {
		for (uint64_t i = 0; i < count; i++)
			tell_place(t, s, first->offset + i);
		return;
	}
	HASH_ITER (hh, t->places, p, next)
		if (p->key[0] == first->topic->serial && p->key[1] == first->partition &&
		    p->key[2] - first->offset < count)
			tell_place(t, s, p->key[2]);
}

static void tell_delivered(struct tracer *t, const struct step *s)
{
	struct traced *f = find_traced(t, s->id);

	if (f && s->place)
		note_place(t, f, s->place);
	tell_event(t, &kinds[s->kind], f, s);
}

static void begin_failing(struct tracer *t, struct step *s)
{
	if (!find_traced(t, s->id))
		return;
	t->failing = (struct line_trace){ 0 };
	t->failing_id = s->id;
	if (!s->context) {
		t->context = (struct decision_context){ 0 };
		s->context = &t->context;
	}
	s->context->trace = &t->failing;
}

static void tell_step(struct follower *follower, struct step *s)
{
	struct tracer *t = container_of(follower, struct tracer, follower);
	const struct event_kind *kind = &kinds[s->kind];

	switch (s->kind) {
	case STEP_PUBLISH:
		begin_publish(t, s);
		return;
	case STEP_DECIDED:
		end_publish(t, s);
		return;
	case STEP_FAIL:
		begin_failing(t, s);
		return;
	case STEP_DELIVERED:
		tell_delivered(t, s);
		return;
	case STEP_ACKED:
	case STEP_RETURNED:
		if (s->place) {
			tell_places(t, s);
			return;
		}
		break;
	case STEP_ANSWERED:
		if (s->script != SCRIPT_DELIVER || !s->deliver->file)
			return;
		break;
	case STEP_CONFIRMED:
		if (s->confirm->status < 0)
			kind = &refused;
		break;
	default:
		break;
	}
	tell_event(t, kind, find_traced(t, s->id), s);
}

/* Traces. */

struct tracer *tracer_create(struct broker *b)
{
	struct tracer *t = mem_zalloc(sizeof(*t));

	t->broker = b;
	t->random = machine_random();
	t->follower.tell = tell_step;
	t->follower.role = FOLLOWER_TRACE;
	t->follower.steps = STEP_BIT(STEP_PUBLISH) | STEP_BIT(STEP_DECIDED) |
			    STEP_BIT(STEP_FAIL) | STEP_BIT(STEP_ANSWERED) |
			    STEP_BIT(STEP_DELIVERED) | STEP_BIT(STEP_ACKED) |
			    STEP_BIT(STEP_RETURNED) | STEP_BIT(STEP_SETTLED) |
			    STEP_BIT(STEP_COPIED) | STEP_BIT(STEP_CONFIRMED);
	TAILQ_INIT(&t->followed);
	return t;
}

void tracer_destroy(struct tracer *t)
{
	if (!t)
		return;
	id_table_deinit(&t->by_id);
	mem_free(t);
}

int tracer_start(struct tracer *t, const struct trace_spec *spec,
		 const struct trace_reader *reader, struct trace **out, struct error *err)
{
	struct trace *trace;
	unsigned number = 0;

	if (t->trace_count == TRACES_MAX)
		return error_set(err, TIDE_ELIMIT,
				 "the broker has at most %d traces at a time",
				 TRACES_MAX);
	while (t->traces[number])
		number++;
	trace = mem_zalloc(sizeof(*trace));
	*trace = (struct trace){ .tracer = t,
				 .reader = *reader,
				 .number = number,
				 .spec = *spec,
				 .until_mono_ms = t->broker->mono_ms + spec->for_ms };
	trace->spec.exchange.data = mem_strndup(spec->exchange.data, spec->exchange.len);
	trace->spec.key.data = mem_strndup(spec->key.data, spec->key.len);
	trace->threshold =
		spec->share >= 1 ? UINT64_MAX : (uint64_t)(spec->share * 0x1p64);
	t->traces[number] = trace;
	t->trace_count++;
	step_follow(&t->broker->followers, &t->follower);
	*out = trace;
	return TIDE_OK;
}

const struct trace_spec *tracer_spec(const struct trace *trace)
{
	return &trace->spec;
}

static void forget_trace(struct tracer *t, unsigned number)
{
	struct traced *f, *next;

	for (f = TAILQ_FIRST(&t->followed); f; f = next) {
		next = TAILQ_NEXT(f, link);
		f->traces &= ~(1u << number);
		if (!f->traces)
			forget_message(t, f);
	}
	t->deciding &= ~(1u << number);
	t->traces[number] = NULL;
	if (--t->trace_count == 0)
		step_unfollow(&t->broker->followers, &t->follower);
}

void tracer_end_take(struct trace *trace, const char *why)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "{\"what\":\"end\",\"why\":\"%s\",\"messages\":%u,\"dropped\":%llu}",
		 why, trace->picked, (unsigned long long)trace->dropped);
	send_event(trace, text);
	trace->reader.on_end(trace->reader.ctx);
	forget_trace(trace->tracer, trace->number);
	mem_free((char *)trace->spec.exchange.data);
	mem_free((char *)trace->spec.key.data);
	mem_free(trace);
}

void tracer_turn(struct tracer *t)
{
	for (unsigned i = 0; t && i < TRACES_MAX; i++)
		if (t->traces[i] && t->traces[i]->until_mono_ms <= t->broker->mono_ms)
			tracer_end_take(t->traces[i], "time");
}

int64_t tracer_due_ms(const struct tracer *t)
{
	int64_t due_ms = 0;

	for (unsigned i = 0; t && i < TRACES_MAX; i++)
		if (t->traces[i])
			due_ms = heap_earlier(
				due_ms, t->broker->now_ms + t->traces[i]->until_mono_ms -
						t->broker->mono_ms);
	return due_ms;
}
