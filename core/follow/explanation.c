#include "explanation.h"

#include "base/container.h"
#include "base/id_table.h"
#include "base/mem.h"
#include "broker/publish.h"
#include "broker/queue.h"
#include "broker/vhost.h"
#include "changes.h"
#include "rules/engine/index.h"
#include "rules/engine/strategy.h"
#include "rules/engine/rule_match.h"

#define RUNS_MAX 64     /* of lines that are told */
#define PATTERNS_MAX 20 /* bindings of an exchange that are told; more are counted */

/* The elements of an array that grows while the decision is made. */
struct list {
	struct buf text;
	struct json items;
};

struct explanation {
	struct follower follower;
	struct dry_run run;
	struct list filters;
	struct list exchanges[1 + DRAFT_COPIES_MAX]; /* of the message, of the copies */
	struct list unranked;
	struct error unread;
	struct line_trace trace; /* of the script that was asked last */
	/* The lines by which the scripts of queues decided, as pointers; those that
	 * decided last count. */
	struct id_table lines;
};

static uint64_t line_key(const struct queue *q, unsigned number, enum script_kind kind)
{
	return q->serial << 16 | number << 4 | kind;
}

void explanation_write_lines(struct json *j, const struct line_trace *t)
{
	int first = 0, last = 0;

	if (t->line == 0)
		return;
	json_member_int(j, "line", t->line);
	json_member_array(j, "lines");
	for (int i = 0; i < RUNS_MAX && line_trace_next(t, &first, &last); i++) {
		json_array_begin(j);
		json_int(j, first);
		json_int(j, last);
		json_array_end(j);
		first = last + 1;
	}
	json_array_end(j);
}

static void add_time(struct json *j, uint64_t time_ns)
{
	json_member_number(j, "us", (double)(time_ns / 100) / 10);
}

static void add_changes(struct json *j, const struct msg *from, const struct msg *to)
{
	struct changes c = { .out = j, .one = "from", .other = "to" };

	json_member_array(j, "changes");
	changes_add(&c, from, to);
	json_array_end(j);
}

static void add_words(struct json *j, const char *key, const struct match_words *words,
		      const char *any)
{
	struct buf text = { 0 };

	rule_match_text(words, any, &text);
	json_member_string(j, key, buf_slice(&text));
	buf_deinit(&text);
}

static void add_filter(struct explanation *e, unsigned number,
		       const struct filter_step *step)
{
	struct json *j = &e->filters.items;

	json_object_begin(j);
	json_member_text(j, "script", step->file);
	if (step->model)
		json_member_text(j, "model", step->model);
	explanation_write_lines(j, &e->trace);
	if (number > 0)
		json_member_int(j, "copy", number);
	add_words(j, "match_exchange", &step->match->exchange, "*");
	add_words(j, "match_key", &step->match->key, "#");
	if (step->rejected)
		json_member_text(j, "rejected", step->rejected);
	add_changes(j, step->before, step->after);
	json_member_int(j, "copies", step->copies);
	add_time(j, step->time_ns);
	json_object_end(j);
}

static void add_unranked(struct explanation *e, const struct step *s)
{
	struct json *j = &e->unranked.items;

	json_object_begin(j);
	json_member_text(j, "queue", s->queue->name);
	if (s->outcome > 0)
		json_member_int(j, "copy", s->outcome);
	json_member_text(j, "error", s->error->text);
	json_object_end(j);
}

static void note_line(struct explanation *e, const struct step *s)
{
	uint64_t key = line_key(s->queue, s->outcome, s->script);

	id_table_remove(&e->lines, key);
	if (e->trace.line > 0)
		id_table_add(&e->lines, key, (void *)(uintptr_t)e->trace.line);
}

static void add_pattern(struct json *j, const struct binding *b)
{
	json_object_begin(j);
	json_member_text(j, "pattern", b->pattern[0] ? b->pattern : "-");
	json_member_string(j, b->queue ? "queue" : "exchange", binding_dest(b));
	if (b->args.count > 0)
		json_member_object(j, "options");
	for (size_t i = 0; i < b->args.count; i++)
		json_member_text(j, b->args.items[i].name, b->args.items[i].value);
	if (b->args.count > 0)
		json_object_end(j);
	json_object_end(j);
}

static void add_visit(struct explanation *e, unsigned number, const struct route_visit *v)
{
	struct json *j = &e->exchanges[number].items;
	const struct exchange *x = v->exchange;

	json_object_begin(j);
	json_member_text(j, "exchange", x->name);
	json_member_text(j, "type", x->type);
	json_member_text(j, "script", index_script(x->indexes[RULESET_ACTIVE]));
	explanation_write_lines(j, &e->trace);
	json_member_int(j, "bindings", x->binding_count);
	if (v->alternate_of)
		json_member_text(j, "alternate_of", v->alternate_of->name);
	json_member_int(j, "matched", (int64_t)v->count);
	json_member_array(j, "patterns");
	for (size_t i = 0; i < v->count && i < PATTERNS_MAX; i++)
		add_pattern(j, x->bindings[v->numbers[i]]);
	json_array_end(j);
	json_object_end(j);
}

/* The script of the pick's queue, and the line by which it decided. */
static void add_script(struct json *j, struct explanation *e, const struct pick *pick,
		       const struct outcome *o, enum script_kind kind)
{
	struct strategy *s = pick->queue->strategies[RULESET_ACTIVE][kind];
	int line = (int)(uintptr_t)id_table_find(&e->lines,
						 line_key(pick->queue, o->number, kind));

	json_member_text(j, script_kind_name(kind), strategy_script(s));
	if (line > 0)
		json_member_int(
			j, kind == SCRIPT_SHARDING ? "sharding_line" : "priority_line",
			line);
}

static void add_rank(struct json *j, struct explanation *e, const struct pick *pick,
		     const struct outcome *o)
{
	json_member_number(j, "rank", pick->rank);
	add_script(j, e, pick, o, SCRIPT_PRIORITY);
	if (pick->is_unranked)
		json_member_bool(j, "unranked", true);
}

static void add_pick(struct json *j, struct explanation *e, const struct pick *pick,
		     const struct outcome *o)
{
	struct queue *q = pick->queue;
	const struct dedupe_key key = decide_dedupe_key(o);
	bool is_topic = q->topic != NULL;
	struct error why;

	json_object_begin(j);
	json_member_text(j, "queue", q->name);
	if (pick->binding) {
		json_member_text(j, "binding", pick->binding->pattern);
		json_member_text(j, "exchange", pick->binding->source->name);
	}
	json_member_int(j, is_topic ? "partition" : "shard",
			is_topic ? pick->index : pick->shard->index);
	add_script(j, e, pick, o, SCRIPT_SHARDING);
	if (!is_topic)
		add_rank(j, e, pick, o);
	json_member_bool(j, is_topic ? "partition_cached" : "shard_cached",
			 o->was_cached && pick->is_shard_known);
	if (!is_topic)
		json_member_bool(j, "rank_cached", o->was_cached && pick->is_rank_known);
	add_script(j, e, pick, o, SCRIPT_RETRY);
	if (!is_topic)
		json_member_text(j, "state", o->msg->due_unix_ms ? "delayed" : "ready");
	json_member_bool(j, "durable",
			 queue_is_durable(q) && (is_topic || pick->shard->keys));
	if (o->msg->dedupe_len)
		publish_ids_explain(q->ids, &key, queue_dedupe_ms(q), j);
	if (publish_check_pick(o, pick, &why) < 0)
		json_member_text(j, "refused", why.text);
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
	if (m->ack_timeout_ms)
		json_member_int(j, "ack_timeout", m->ack_timeout_ms);
}

/* The members of an outcome. */
static void add_outcome(struct json *j, struct explanation *e, const struct vhost *v,
			const struct outcome *o)
{
	struct exchange *x = o->exchange;

	json_member_text(j, "exchange", x ? x->name : "-");
	json_member_text(j, "type", x ? x->type : "default");
	if (x)
		json_member_text(j, "script", index_script(x->indexes[RULESET_ACTIVE]));
	json_member_list(j, "exchanges", buf_slice(&e->exchanges[o->number].text));
	json_member_string(j, "key", o->msg->key);
	json_member_int(j, "priority", o->msg->priority);
	json_member_int(j, "generation", (int64_t)o->epoch);
	json_member_bool(j, "pure", o->is_pure);
	json_member_bool(j, "cached", o->was_cached);
	if (o->msg->dedupe_len)
		json_member_string(j, "dedupe_id", msg_dedupe_id(o->msg));
	if (o->msg->user_len)
		json_member_string(j, "user", msg_user(o->msg));
	add_times(j, o->msg);
	msg_write_headers(o->msg, j);
	json_member_array(j, "queues");
	for (unsigned i = 0; i < o->count; i++)
		add_pick(j, e, &o->picks[i], o);
	json_array_end(j);
	if (!x && o->count == 0 && vhost_makes(v, o->msg->key))
		json_member_bool(j, "on_demand", true);
}

static void add_copies(struct json *j, struct explanation *x, const struct vhost *v,
		       const struct decision *d)
{
	json_member_array(j, "copies");
	for (unsigned i = 0; i < d->copy_count; i++) {
		json_object_begin(j);
		json_member_int(j, "copy", d->copies[i].number);
		json_member_text(j, "by", d->copies[i].sender);
		add_outcome(j, x, v, &d->copies[i]);
		json_object_end(j);
	}
	json_array_end(j);
}

static void add_scripts(struct json *j, const struct dry_run *run)
{
	json_member_array(j, "scripts");
	for (size_t i = 0; i < run->count; i++) {
		json_object_begin(j);
		json_member_text(j, "script", run->scripts[i].file);
		json_member_int(j, "calls", (int64_t)run->scripts[i].calls);
		add_time(j, run->scripts[i].time_ns);
		json_object_end(j);
	}
	json_array_end(j);
}

/* A message that no filter let through has no route. */
static void add_address(struct json *j, const struct msg *m)
{
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "priority", m->priority);
	msg_write_headers(m, j);
}

static void add_failure(struct json *j, const struct error *failure)
{
	const char *name = "error";

	if (failure->code == TIDE_EREJECTED)
		name = "rejected";
	else if (failure->code == TIDE_EDENIED)
		name = "denied";
	if (failure->code < 0)
		json_member_text(j, name, failure->text);
}

void explanation_write(struct explanation *x, const struct decide_spec *spec,
		       const struct decision *d, const struct error *failure,
		       struct json *j)
{
	add_failure(j, failure);
	if (spec->is_canary)
		json_member_bool(j, "canary", true);
	if (d->first.epoch) {
		add_outcome(j, x, spec->vhost, &d->first);
	} else {
		add_address(j, d->first.msg);
		json_member_int(j, "generation",
				(int64_t)engine_epoch(spec->vhost->broker->engine));
		json_member_list(j, "exchanges", buf_slice(&x->exchanges[0].text));
		json_member_array(j, "queues");
		json_array_end(j);
	}
	json_member_list(j, "filters", buf_slice(&x->filters.text));
	if (d->first.epoch)
		add_copies(j, x, spec->vhost, d);
	if (buf_len(&x->unranked.text) > 0)
		json_member_list(j, "unranked", buf_slice(&x->unranked.text));
	if (x->unread.code)
		json_member_text(j, "unread", x->unread.text);
	add_scripts(j, &x->run);
}

static void tell_step(struct follower *f, struct step *s)
{
	struct explanation *x = container_of(f, struct explanation, follower);

	if (s->kind == STEP_FILTERED)
		add_filter(x, s->outcome, s->filter);
	else if (s->kind == STEP_ROUTED)
		add_visit(x, s->outcome, s->visit);
	else if (s->kind == STEP_PICKED)
		note_line(x, s);
	else if (s->kind == STEP_UNRANKED)
		add_unranked(x, s);
}

void explanation_watch(struct explanation *x, struct decide_spec *spec,
		       struct decision_context *c)
{
	x->follower.tell = tell_step;
	spec->follower = &x->follower;
	c->costs = &x->run;
	c->trace = &x->trace;
	c->unread = &x->unread;
}

struct explanation *explanation_create(void)
{
	struct explanation *x = mem_alloc(sizeof(*x));

	x->run.count = 0;
	x->trace.line = 0;
	x->unread.code = TIDE_OK;
	x->lines = (struct id_table){ 0 };
	x->filters = (struct list){ .items = { .out = &x->filters.text } };
	x->unranked = (struct list){ .items = { .out = &x->unranked.text } };
	for (int i = 0; i <= DRAFT_COPIES_MAX; i++)
		x->exchanges[i] = (struct list){
			.items = { .out = &x->exchanges[i].text },
		};
	return x;
}

void explanation_destroy(struct explanation *x)
{
	if (!x)
		return;
	id_table_deinit(&x->lines);
	buf_deinit(&x->filters.text);
	buf_deinit(&x->unranked.text);
	for (int i = 0; i <= DRAFT_COPIES_MAX; i++)
		buf_deinit(&x->exchanges[i].text);
	mem_free(x);
}
