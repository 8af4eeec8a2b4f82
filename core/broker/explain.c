/* EXPLAIN: what a publish would do, which scripts would decide it, and why. It
 * is decided by the code that publishes; then it is printed, not done. */
#include "../base/json.h"
#include "../rules/dry_run.h"
#include "decide.h"
#include "dedupe.h"
#include "session.h"

struct explanation {
	struct dry_run run;
	struct buf filters; /* the array, as it is told */
	struct json steps;
};

static void add_time(struct json *j, uint64_t time_ns)
{
	json_key(j, "us");
	json_number(j, (double)(time_ns / 100) / 10);
}

/* ---- filters ------------------------------------------------------------------------
 */

static void begin_change(struct json *j, const char *field)
{
	json_object_begin(j);
	json_member_text(j, "field", field);
}

static void add_text_change(struct json *j, const char *field, struct slice from,
			    struct slice to)
{
	if (slice_is_equal(from, to))
		return;
	begin_change(j, field);
	json_member_string(j, "from", from);
	json_member_string(j, "to", to);
	json_object_end(j);
}

static void add_int_change(struct json *j, const char *field, int64_t from, int64_t to)
{
	if (from == to)
		return;
	begin_change(j, field);
	json_member_int(j, "from", from);
	json_member_int(j, "to", to);
	json_object_end(j);
}

static void add_header_change(struct json *j, struct slice name, struct slice from,
			      struct slice to)
{
	json_object_begin(j);
	json_member_text(j, "field", "header");
	json_member_string(j, "name", name);
	json_key(j, "from");
	if (from.data)
		json_string(j, from);
	else
		json_null(j);
	json_key(j, "to");
	if (to.data)
		json_string(j, to);
	else
		json_null(j);
	json_object_end(j);
}

static void add_header_changes(struct json *j, const struct msg *from,
			       const struct msg *to)
{
	for (unsigned i = 0; i < from->header_count; i++) {
		struct msg_header *h = &from->headers[i];
		struct slice value = msg_header(to, h->name);

		if (!value.data || !slice_is_equal(value, h->value))
			add_header_change(j, h->name, h->value, value);
	}
	for (unsigned i = 0; i < to->header_count; i++) {
		struct msg_header *h = &to->headers[i];

		if (!msg_header(from, h->name).data)
			add_header_change(j, h->name, (struct slice){ NULL, 0 },
					  h->value);
	}
}

static struct slice payload_of(const struct msg *m)
{
	return (struct slice){ m->payload, m->payload_len };
}

static void add_payload_change(struct json *j, const struct msg *from,
			       const struct msg *to)
{
	if (slice_is_equal(payload_of(from), payload_of(to)))
		return;
	begin_change(j, "payload");
	json_member_int(j, "from_bytes", (int64_t)from->payload_len);
	json_member_int(j, "to_bytes", (int64_t)to->payload_len);
	json_object_end(j);
}

static struct slice exchange_word(struct slice name)
{
	return name.len ? name : SLICE("-");
}

static void add_changes(struct json *j, const struct msg *from, const struct msg *to)
{
	json_key(j, "changes");
	json_array_begin(j);
	add_text_change(j, "exchange", exchange_word(from->exchange),
			exchange_word(to->exchange));
	add_text_change(j, "key", from->key, to->key);
	add_text_change(j, "dedupe_id", msg_dedupe_id(from), msg_dedupe_id(to));
	add_int_change(j, "priority", from->priority, to->priority);
	add_int_change(j, "due", from->due_unix_ms, to->due_unix_ms);
	add_int_change(j, "expires", from->expires_unix_ms, to->expires_unix_ms);
	add_header_changes(j, from, to);
	add_payload_change(j, from, to);
	json_array_end(j);
}

static void on_filter(void *ctx, unsigned number, const struct filter_step *step)
{
	struct json *j = &((struct explanation *)ctx)->steps;

	json_object_begin(j);
	json_member_text(j, "script", step->file);
	if (number > 0)
		json_member_int(j, "copy", number);
	json_member_text(j, "match_exchange",
			 step->match_exchange[0] ? step->match_exchange : "-");
	json_member_text(j, "match_key", step->match_key[0] ? step->match_key : "-");
	if (step->rejected)
		json_member_text(j, "rejected", step->rejected);
	add_changes(j, step->before, step->after);
	json_member_int(j, "copies", step->copies);
	add_time(j, step->time_ns);
	json_object_end(j);
}

/* ---- outcomes -----------------------------------------------------------------------
 */

static void add_pick(struct json *j, const struct pick *pick, const struct outcome *o)
{
	struct queue *q = pick->queue;

	json_object_begin(j);
	json_member_text(j, "queue", q->name);
	if (pick->binding) {
		json_member_text(j, "binding", pick->binding->pattern);
		json_member_text(j, "exchange", pick->binding->source->name);
	}
	json_member_int(j, "shard", pick->shard->index);
	json_member_text(j, "sharding", strategy_script(q->strategies[SCRIPT_SHARDING]));
	json_key(j, "rank");
	json_number(j, pick->rank);
	json_member_text(j, "priority", strategy_script(q->strategies[SCRIPT_PRIORITY]));
	json_member_bool(j, "shard_cached", o->was_cached && pick->is_shard_known);
	json_member_bool(j, "rank_cached", o->was_cached && pick->is_rank_known);
	json_member_text(j, "retry", strategy_script(q->strategies[SCRIPT_RETRY]));
	json_member_text(j, "state", o->msg->due_unix_ms ? "delayed" : "ready");
	json_member_bool(j, "durable", queue_is_durable(q));
	if (o->msg->dedupe_len)
		dedupe_explain(o, pick, j);
	json_object_end(j);
}

static void add_times(struct json *j, const struct msg *m)
{
	int64_t from_ms = m->due_unix_ms ? m->due_unix_ms : m->ts_unix_ms;

	if (m->due_unix_ms) {
		json_member_int(j, "delay", m->due_unix_ms - m->ts_unix_ms);
		json_member_int(j, "due", m->due_unix_ms);
	}
	if (m->expires_unix_ms) {
		json_member_int(j, "ttl", m->expires_unix_ms - from_ms);
		json_member_int(j, "expires", m->expires_unix_ms);
	}
}

static void add_headers(struct json *j, const struct msg *m)
{
	json_key(j, "headers");
	json_object_begin(j);
	for (unsigned i = 0; i < m->header_count; i++) {
		json_key_slice(j, m->headers[i].name);
		json_string(j, m->headers[i].value);
	}
	json_object_end(j);
}

/* The members of an outcome. */
static void add_outcome(struct json *j, const struct outcome *o)
{
	struct exchange *x = o->exchange;

	json_member_text(j, "exchange", x ? x->name : "-");
	json_member_text(j, "type", x ? x->type : "default");
	if (x) {
		json_member_text(j, "script", index_script(x->index));
		json_member_int(j, "bindings", x->binding_count);
		json_member_int(j, "matched", o->bindings_matched);
	}
	json_member_string(j, "key", o->msg->key);
	json_member_int(j, "message_priority", o->msg->priority);
	json_member_int(j, "generation", (int64_t)o->epoch);
	json_member_bool(j, "pure", o->is_pure);
	json_member_bool(j, "cached", o->was_cached);
	if (o->msg->dedupe_len)
		json_member_string(j, "dedupe_id", msg_dedupe_id(o->msg));
	add_times(j, o->msg);
	add_headers(j, o->msg);
	json_key(j, "queues");
	json_array_begin(j);
	for (unsigned i = 0; i < o->count; i++)
		add_pick(j, &o->picks[i], o);
	json_array_end(j);
}

static void add_copies(struct json *j, const struct decision *d)
{
	json_key(j, "copies");
	json_array_begin(j);
	for (unsigned i = 0; i < d->copy_count; i++) {
		json_object_begin(j);
		json_member_int(j, "copy", d->copies[i].number);
		json_member_text(j, "by", d->copies[i].sender);
		add_outcome(j, &d->copies[i]);
		json_object_end(j);
	}
	json_array_end(j);
}

/* ---- the document -------------------------------------------------------------------
 */

static void add_filters(struct json *j, struct explanation *x)
{
	json_array_end(&x->steps);
	json_key(j, "filters");
	buf_append_slice(j->out, buf_slice(&x->filters));
	j->need_comma = true;
}

static void add_scripts(struct json *j, const struct dry_run *run)
{
	json_key(j, "scripts");
	json_array_begin(j);
	for (size_t i = 0; i < run->count; i++) {
		json_object_begin(j);
		json_member_text(j, "script", run->scripts[i].file);
		json_member_int(j, "calls", (int64_t)run->scripts[i].calls);
		add_time(j, run->scripts[i].time_ns);
		json_object_end(j);
	}
	json_array_end(j);
}

/* What no filter let through has no route. */
static void add_rejection(struct json *j, const struct decide_spec *spec,
			  const struct error *err)
{
	json_member_string(j, "exchange", exchange_word(spec->msg->exchange));
	json_member_string(j, "key", spec->msg->key);
	json_member_int(j, "generation",
			(int64_t)engine_epoch(spec->vhost->broker->engine));
	json_member_text(j, "rejected", err->text);
	json_key(j, "queues");
	json_array_begin(j);
	json_array_end(j);
}

static void answer(struct explanation *x, const struct decide_spec *spec,
		   const struct decision *d, const struct error *rejected,
		   struct reply *r)
{
	struct buf text;
	struct json j;

	buf_init(&text);
	json_init(&j, &text);
	json_object_begin(&j);
	if (rejected)
		add_rejection(&j, spec, rejected);
	else
		add_outcome(&j, &d->first);
	add_filters(&j, x);
	if (!rejected)
		add_copies(&j, d);
	add_scripts(&j, &x->run);
	json_object_end(&j);
	reply_data_take(r, &text);
}

static void explain(const struct decide_spec *spec, struct explanation *x,
		    struct reply *r)
{
	struct engine *e = spec->vhost->broker->engine;
	struct decision d;
	struct error err;
	int rc;

	engine_dry_run_begin(e, &x->run);
	rc = decide(&d, spec, &err);
	engine_dry_run_end(e);
	if (rc == TIDE_OK || rc == TIDE_EREJECTED)
		answer(x, spec, &d, rc == TIDE_OK ? NULL : &err, r);
	else
		reply_error(r, &err);
	decision_deinit(&d);
}

void session_explain(struct session *s, const struct publish_spec *spec, struct reply *r)
{
	struct explanation x;
	struct error err;
	struct msg *m;
	struct decide_spec what = { .on_filter = on_filter, .ctx = &x };

	if (session_prepare(s, spec, &m, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	buf_init(&x.filters);
	json_init(&x.steps, &x.filters);
	json_array_begin(&x.steps);
	what.vhost = s->vhost;
	what.exchange = m->exchange.len ? exchange_find(s->vhost, m->exchange) : NULL;
	what.msg = m;
	explain(&what, &x, r);
	buf_deinit(&x.filters);
	msg_unref(m);
}
