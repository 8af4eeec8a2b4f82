#include "trace_way.h"

#include "broker/group.h"
#include "broker/member.h"
#include "broker/retry.h"
#include "rules/engine/deliver.h"
#include "rules/engine/settled.h"
#include "session_private.h"
#include "trace_event.h"
#include "tracer_private.h"

/* Of a range of offsets, so many are looked for one by one. */
#define RANGE_SHORT 64

static void add_consumer(struct json *j, const struct consumer *c)
{
	const struct channel *ch = container_of(c->lease.holder, struct channel, holder);

	json_member_int(j, "connection", (int64_t)ch->session->number);
	json_member_int(j, "channel", ch->number);
	json_member_text(j, "sid", c->getter ? "-" : subscription_of(c)->sid);
	if (c->is_auto_ack)
		json_member_bool(j, "auto_ack", true);
}

static void on_offered(void *ctx, const struct queue *q, const struct deliver_pass *p,
		       const struct error *failure)
{
	struct trace_event v;

	if (!trace_event_begin_by_id(&v, ctx, "offered", p->msg->id))
		return;
	json_member_text(&v.json, q->topic ? "topic" : "queue", q->name);
	json_member_text(&v.json, "script", p->file);
	json_member_int(&v.json, "line", p->line);
	json_member_text(&v.json, failure ? "error" : "then",
			 failure ? failure->text : deliver_verdict_names[p->verdict]);
	if (!failure && p->verdict == DELIVER_LATER)
		json_member_int(&v.json, "delay_ms", p->delay_ms);
	if (!failure && p->reason[0])
		json_member_text(&v.json, "reason", p->reason);
	if (p->head)
		msg_write_headers(p->head, &v.json);
	trace_event_end(&v);
}

static void on_delivered(void *ctx, const struct consumer *c, const struct entry *e)
{
	struct trace_event v;

	if (!trace_event_begin_by_id(&v, ctx, "delivered", e->id))
		return;
	json_member_text(&v.json, "queue", entry_queue(e)->name);
	add_consumer(&v.json, c);
	if (e->tag)
		json_member_int(&v.json, "tag", (int64_t)e->tag);
	json_member_int(&v.json, "attempt", e->failures + 1);
	trace_event_end(&v);
}

static void on_acked(void *ctx, const struct entry *e)
{
	struct tracer *t = ctx;
	struct trace_event v;

	if (!trace_event_begin_by_id(&v, t, "acked", e->id))
		return;
	json_member_text(&v.json, "queue", entry_queue(e)->name);
	if (e->state == ENTRY_UNACKED)
		json_member_int(&v.json, "held_ms",
				t->service->broker->now_ms - e->at_unix_ms);
	trace_event_end(&v);
}

static struct line_trace *on_failing(void *ctx, uint64_t id)
{
	struct tracer *t = ctx;

	if (!traced_find(&t->followed, id))
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
	struct trace_event v;

	if (!trace_event_begin_by_id(&v, t, "returned", e->id))
		return;
	json_member_text(&v.json, "queue", entry_queue(e)->name);
	add_fate(&v.json, fate, t->service->broker->now_ms);
	add_line(&v.json, t, e->id);
	json_member_int(&v.json, "deliveries", e->deliveries);
	json_member_int(&v.json, "failures", e->failures + fate->is_failure);
	trace_event_end(&v);
}

static void on_settled(void *ctx, const struct queue *q, const struct msg *m,
		       const struct settled_step *step)
{
	struct trace_event v;

	if (!trace_event_begin_by_id(&v, ctx, "settled", m->id))
		return;
	json_member_text(&v.json, q->topic ? "topic" : "queue", q->name);
	json_member_text(&v.json, "script", step->file);
	json_member_int(&v.json, "line", step->line);
	json_member_text(&v.json, "event", settled_event_names[step->event]);
	if (step->failure->code < 0)
		json_member_text(&v.json, "error", step->failure->text);
	else
		json_member_int(&v.json, "copies", step->copies);
	trace_event_end(&v);
}

static void on_dead(void *ctx, const struct queue *q, uint64_t id, const struct msg *copy)
{
	struct tracer *t = ctx;
	struct trace_event v;

	if (!trace_event_begin_by_id(&v, t, "dead-lettered", id))
		return;
	json_member_text(&v.json, "queue", q->name);
	json_member_hex(&v.json, "copy", copy->id);
	json_member_string(&v.json, "exchange", msg_exchange_word(copy));
	json_member_string(&v.json, "key", copy->key);
	traced_follow_copy(&t->followed, copy->id, v.followed);
	trace_event_end(&v);
}

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
	struct traced *f = traced_find(&t->followed, d->record->msg.id);
	const struct record_place at = { c->queue, group_name(c), d->partition,
					 d->record->offset };
	struct trace_event v;

	if (!f)
		return;
	traced_note_place(&t->followed, f, &at);
	trace_event_begin(&v, t, "delivered", f);
	add_place(&v.json, &at);
	add_consumer(&v.json, c);
	if (d->tag)
		json_member_int(&v.json, "tag", (int64_t)d->tag);
	json_member_int(&v.json, "attempt", d->attempt);
	trace_event_end(&v);
}

static void tell_record(struct tracer *t, const struct record_place *at, const char *what,
			const struct retry_fate *fate)
{
	const struct traced_place *p = traced_find_place(&t->followed, at);
	struct trace_event v;

	if (!p)
		return;
	trace_event_begin(&v, t, what, p->followed);
	add_place(&v.json, at);
	if (fate) {
		add_fate(&v.json, fate, t->service->broker->mono_ms);
		add_line(&v.json, t, p->followed->id);
	}
	trace_event_end(&v);
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
	HASH_ITER (hh, t->followed.places, p, next) {
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

void trace_way_watch(struct follower *f)
{
	f->on_offered = on_offered;
	f->on_failing = on_failing;
	f->on_delivered = on_delivered;
	f->on_acked = on_acked;
	f->on_returned = on_returned;
	f->on_settled = on_settled;
	f->on_dead = on_dead;
	f->on_record = on_record;
	f->on_records_acked = on_records_acked;
	f->on_record_failed = on_record_failed;
}
