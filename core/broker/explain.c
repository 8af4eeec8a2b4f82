/* EXPLAIN: what a publish would do, which scripts would decide it, and why.
 * The route is found by the code that routes; nothing is stored. */
#include "../base/json.h"
#include "route.h"
#include "session.h"

static void add_target(struct json *j, const struct route_target *t, const struct msg *m)
{
	struct queue *q = t->queue;
	struct error err;
	unsigned shard;

	json_object_begin(j);
	json_member_text(j, "queue", q->name);
	if (t->binding) {
		json_member_text(j, "binding", t->binding->pattern);
		json_member_text(j, "exchange", t->binding->source->name);
	}
	if (route_pick(t, m, &shard, &err) < 0) {
		json_member_text(j, "error", err.text);
		json_object_end(j);
		return;
	}
	json_member_int(j, "shard", shard);
	json_member_text(j, "sharding", strategy_script(q->strategies[SCRIPT_SHARDING]));
	json_key(j, "rank");
	json_number(j, t->has_rank ? t->rank : queue_rank(q, q->shards[shard], m));
	json_member_text(j, "priority", strategy_script(q->strategies[SCRIPT_PRIORITY]));
	json_member_text(j, "retry", strategy_script(q->strategies[SCRIPT_RETRY]));
	json_member_text(j, "state", m->due_unix_ms ? "delayed" : "ready");
	json_member_bool(j, "durable", queue_is_durable(q));
	json_object_end(j);
}

static void explain(struct json *j, struct exchange *x, const struct route *route,
		    const struct msg *m)
{
	json_object_begin(j);
	json_member_text(j, "exchange", x ? x->name : "-");
	json_member_text(j, "type", x ? x->type : "default");
	if (x) {
		json_member_text(j, "script", index_script(x->index));
		json_member_int(j, "bindings", x->binding_count);
	}
	json_member_string(j, "key", m->key);
	json_member_int(j, "generation", (int64_t)route->epoch);
	json_member_bool(j, "pure", route->is_pure);
	json_member_bool(j, "cached", route->was_cached);
	if (m->due_unix_ms)
		json_member_int(j, "due", m->due_unix_ms);
	if (m->expires_unix_ms)
		json_member_int(j, "expires", m->expires_unix_ms);
	json_key(j, "queues");
	json_array_begin(j);
	for (unsigned i = 0; i < route->count; i++)
		add_target(j, &route->targets[i], m);
	json_array_end(j);
	json_object_end(j);
}

void session_explain(struct session *s, const struct publish_spec *spec, struct reply *r)
{
	const struct route *route;
	struct exchange *x;
	struct error err;
	struct msg *m;
	struct buf text;
	struct json j;
	int rc = session_prepare(s, spec, &m, &err);

	if (rc < 0) {
		reply_error(r, &err);
		return;
	}
	x = m->exchange.len ? exchange_find(s->vhost, m->exchange) : NULL;
	rc = route_find(s->vhost, x, m, &route, &err);
	if (rc < 0) {
		reply_error(r, &err);
	} else {
		buf_init(&text);
		json_init(&j, &text);
		explain(&j, x, route, m);
		reply_data_take(r, &text);
	}
	msg_unref(m);
}
