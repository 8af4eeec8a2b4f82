/* STATS: figures of what there is. */
#include "base/json.h"
#include "session_private.h"
#include "samples.h"
#include "log/compact.h"
#include "broker/queue_figures.h"
#include "broker/retention.h"
#include "broker/unusable.h"
#include "rules/engine/index.h"
#include "broker/pause.h"
#include "figures/figure.h"
#include "base/tally.h"
#include "rules/engine/engine_status.h"
#include "service_figures.h"
#include "service.h"

#define SHOWN_MAX 10

/* The longest held of all that are offered. */
struct leases {
	const struct entry *items[SHOWN_MAX + 1];
	unsigned count;
};

static void offer(struct leases *l, const struct entry *e)
{
	unsigned i = l->count;

	for (; i > 0 && l->items[i - 1]->at_unix_ms > e->at_unix_ms; i--)
		l->items[i] = l->items[i - 1];
	l->items[i] = e;
	if (l->count < SHOWN_MAX)
		l->count++;
}

static void offer_shard(struct leases *l, const struct shard *sh)
{
	const struct entry *e = window_first(&sh->held);

	for (unsigned i = 0; e && i < SHOWN_MAX; i++, e = window_next(&sh->held, e))
		offer(l, e);
	e = TAILQ_FIRST(&sh->young);
	for (unsigned i = 0; e && i < SHOWN_MAX; i++, e = TAILQ_NEXT(e, link))
		offer(l, e);
}

/* As a member "leases": at most ten, the one held for longest comes first. */
static void write_leases(const struct queue *q, struct json *out)
{
	struct leases l = { .count = 0 };

	for (unsigned i = 0; i < q->shard_count; i++)
		offer_shard(&l, q->shards[i]);
	json_key(out, "leases");
	json_array_begin(out);
	for (unsigned i = 0; i < l.count; i++) {
		json_object_begin(out);
		json_member_hex(out, "id", l.items[i]->id);
		channel_write_holder(l.items[i], out);
		json_object_end(out);
	}
	json_array_end(out);
}

void session_write_exchange_kind(const struct exchange *x, struct json *j)
{
	json_member_text(j, "type", x->type);
	json_member_bool(j, "durable", x->config.is_durable);
	json_member_bool(j, "auto_delete", x->config.is_auto_delete);
}

/* Without those that are members of their own. */
static void write_options(struct json *j, const struct config *c)
{
	struct args options;

	config_options(c, &options);
	json_member_object(j, "options");
	for (size_t i = 0; i < options.count; i++)
		if (strcmp(options.items[i].name, "durable") != 0 &&
		    strcmp(options.items[i].name, "auto-delete") != 0)
			json_member_text(j, options.items[i].name,
					 options.items[i].value);
	json_object_end(j);
	args_deinit(&options);
}

void session_write_exchange_options(const struct exchange *x, struct json *j)
{
	if (x->definition.unusable)
		json_member_text(j, "unusable", x->definition.unusable);
	else
		json_member_text(j, "script", index_script(x->indexes[RULESET_ACTIVE]));
	write_options(j, &x->config);
	if (!x->policy)
		return;
	config_write("declared", terms_own(&x->terms), j);
	json_member_text(j, "policy", x->policy);
}

void session_write_pause(const struct queue *q, struct json *j)
{
	static const char *const words[] = { "no", "in", "out", "both" };
	static const char *const ends[QUEUE_DIRECTIONS] = { "paused_in_until",
							    "paused_out_until" };
	unsigned which = 0;

	for (int i = 0; i < QUEUE_DIRECTIONS; i++)
		which |= (unsigned)pause_is_on(q, (enum queue_direction)i) << i;
	json_member_text(j, "paused", words[which]);
	for (int i = 0; i < QUEUE_DIRECTIONS; i++)
		if (which & (1u << i) && q->paused_ms[i] != PAUSE_FOREVER)
			json_member_int(j, ends[i], q->paused_ms[i]);
}

/* Messages a second over 1, 10 and 60 s. */
static void write_rates(struct json *j, const struct rate *in, const struct rate *out)
{
	const struct {
		const char *name;
		const struct rate *rate;
		unsigned seconds;
	} rates[] = {
		{ "in_1s", in, 1 },   { "in_10s", in, 10 },   { "in_60s", in, 60 },
		{ "out_1s", out, 1 }, { "out_10s", out, 10 }, { "out_60s", out, 60 }
	};

	json_member_object(j, "rates");
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		json_member_number(
			j, rates[i].name,
			figure_round(rate_over(rates[i].rate, rates[i].seconds)));
	json_object_end(j);
}

/* How many there were, and those of each step that has some. `unit` divides values and
 * ends the names of members: "_us". */
static void write_tally(struct json *j, const char *name, const struct tally *t,
			const uint64_t *steps, uint64_t unit)
{
	const bool is_time = unit > 1;

	json_member_object(j, name);
	json_member_int(j, "count", (int64_t)t->count);
	json_member_int(j, is_time ? "sum_us" : "sum", (int64_t)(t->sum / unit));
	json_member_int(j, is_time ? "max_us" : "max", (int64_t)(t->max / unit));
	json_member_array(j, "steps");
	for (unsigned i = 0; i == 0 || steps[i - 1] != UINT64_MAX; i++) {
		if (!t->counts[i])
			continue;
		json_object_begin(j);
		if (steps[i] != UINT64_MAX)
			json_member_int(j, is_time ? "to_us" : "to",
					(int64_t)(steps[i] / unit));
		json_member_int(j, "count", (int64_t)t->counts[i]);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static void write_net(const struct service_moment *m, struct json *j)
{
	const struct net_protocol *p = m->service->protocols;

	json_member_object(j, "net");
	service_figures_write(m, "net", j);
	json_member_object(j, "open");
	for (unsigned i = 0; i < NET_PROTOCOLS_MAX && p[i].name; i++)
		json_member_int(j, p[i].name, p[i].open);
	json_object_end(j);
	json_object_end(j);
}

static void write_object(const struct service_moment *m, const char *name, struct json *j)
{
	json_member_object(j, name);
	service_figures_write(m, name, j);
	json_object_end(j);
}
static void write_rules(const struct broker *b, struct json *j)
{
	json_member_object(j, "counters");
	engine_status_counters(b->engine, j);
	json_object_end(j);
	json_member_array(j, "metrics");
	engine_status_metrics(b->engine, j);
	json_array_end(j);
}

static void write_store(const struct service_moment *m, struct json *j)
{
	const struct store_stats *st = &m->store;

	json_member_object(j, "store");
	json_member_text(j, "kind", st->kind);
	json_member_text(j, "address", st->address);
	json_member_text(j, "version", st->version);
	json_member_text(j, "confirm", store_confirm_level(m->service->broker->store));
	json_member_text(j, "state", store_state_name(m->service->broker->store));
	json_member_text(j, "trouble", store_trouble_now(m->service->broker->store));
	service_figures_write(m, "store", j);
	service_figures_write_masters(m, j);
	json_member_text(j, "last_error", m->journal->last_error);
	write_tally(j, "round_trip", &st->round_trip, tally_times_ns, 1000);
	write_tally(j, "changes", &m->journal->changes, tally_sizes, 1);
	json_member_object(j, "refused_requests");
	for (unsigned i = 0; i < STORE_REFUSALS; i++)
		if (st->refused[i])
			json_member_int(j, store_trouble_name((enum store_trouble)i),
					(int64_t)st->refused[i]);
	json_object_end(j);
	json_object_end(j);
}

/* The members of STATS without a name. */
static void write_broker(const struct service *s, struct json *j)
{
	const struct broker *b = s->broker;
	struct service_moment m;

	service_figures_take(&m, s);
	json_member_text(j, "version", TIDE_VERSION);
	service_figures_write(&m, "", j);
	write_object(&m, "transactions", j);
	write_rates(j, &b->in, &b->out);
	write_object(&m, "logins", j);
	write_object(&m, "limited", j);
	write_rules(b, j);
	write_object(&m, "logs", j);
	write_tally(j, "loop", &b->turn_time.busy, tally_times_ns, 1000);
	write_net(&m, j);
	write_object(&m, "process", j);
	write_store(&m, j);
	json_member_object(j, "health");
	service_health_write(s, true, j);
	json_object_end(j);
}

/* Of a queue with groups. */
static void add_order(struct json *j, const struct queue *q)
{
	struct order_stats sum = queue_order_stats(q);

	if (q->config.order_by == ORDER_NONE)
		return;
	json_member_object(j, "order");
	json_member_int(j, "groups", (int64_t)sum.groups);
	json_member_int(j, "groups_blocked", (int64_t)sum.groups_blocked);
	json_member_int(j, "parked", (int64_t)sum.parked);
	json_member_int(j, "parked_in_redis", (int64_t)sum.parked_in_redis);
	json_member_bool(j, "stopped", sum.is_stopped);
	json_object_end(j);
}

/* Of each shard, in the order of their numbers; one that was never used has nothing. */
static void add_per_shard(struct json *j, const struct queue *q)
{
	static const struct {
		const char *name;
		enum entry_state state;
	} states[] = { { "ready", ENTRY_READY },
		       { "delayed", ENTRY_DELAYED },
		       { "unacked", ENTRY_UNACKED },
		       { "buried", ENTRY_BURIED } };

	json_member_array(j, "per_shard");
	for (unsigned i = 0; i < config_shards(&q->config) + (q->transient != NULL);
	     i++) {
		bool is_transient = i == config_shards(&q->config);
		const struct shard *sh = is_transient ? q->transient : q->by_index[i];

		json_object_begin(j);
		json_member_int(j, "shard", is_transient ? QUEUE_TRANSIENT : i);
		for (size_t k = 0; k < sizeof(states) / sizeof(states[0]); k++)
			json_member_int(j, states[k].name,
					sh ? (int64_t)shard_count(sh, states[k].state)
					   : 0);
		json_object_end(j);
	}
	json_array_end(j);
}

/* Of each priority that waits, the most urgent one first. Without priorities the first
 * message of all says it. */
static void add_per_priority(struct json *j, const struct queue *q)
{
	int64_t since[UINT8_MAX + 1] = { 0 }, now_ms = q->vhost->broker->now_ms;

	if (strcmp(q->config.scripts[SCRIPT_PRIORITY], "fifo") == 0)
		return;
	for (unsigned i = 0; i < q->shard_count; i++)
		shard_age_priorities(q->shards[i], since);
	json_member_array(j, "per_priority");
	for (int priority = UINT8_MAX; priority >= 0; priority--) {
		if (!since[priority])
			continue;
		json_object_begin(j);
		json_member_int(j, "priority", priority);
		json_member_int(j, "oldest_ready_ms",
				since[priority] < now_ms ? now_ms - since[priority] : 0);
		json_object_end(j);
	}
	json_array_end(j);
}

static void queue_stats(struct queue *q, struct json *j)
{
	json_member_text(j, "queue", q->name);
	figure_write(&queue_figures_all, FIGURE_STATS, q, q->vhost->broker->now_ms, j);
	queue_begin_second(q);
	write_rates(j, &q->rates->in, &q->rates->out);
	session_write_pause(q, j);
	write_leases(q, j);
	add_per_shard(j, q);
	add_per_priority(j, q);
	add_order(j, q);
}

/* The hold of keep-unread. */
static void add_hold(struct json *j, const struct topic *t, unsigned index)
{
	const struct retention_hold *hold = retention_hold(t, index);

	if (!hold)
		return;
	json_member_int(j, "held_back", (int64_t)hold->messages);
	json_member_string(j, "held_by", hold->group);
	json_member_int(j, "held_since", hold->since_ms);
}

/* Of each partition, in the order of their numbers; one that was never used has nothing.
 */
static void add_partitions(struct json *j, const struct topic *t)
{
	json_member_array(j, "per_partition");
	for (unsigned i = 0; i < t->queue->config.shards; i++) {
		const struct partition *p = t->partitions[i];

		json_object_begin(j);
		json_member_int(j, "partition", i);
		json_member_int(j, "start", p ? (int64_t)partition_start(p) : 0);
		json_member_int(j, "end", p ? (int64_t)partition_end(p) : 0);
		json_member_int(j, "bytes", p ? (int64_t)partition_bytes(p) : 0);
		if (p && partition_last_ms(p))
			json_member_int(j, "last", partition_last_ms(p));
		if (t->queue->config.compacts)
			json_member_int(j, "compacted", p ? (int64_t)compact_end(p) : 0);
		add_hold(j, t, i);
		json_object_end(j);
	}
	json_array_end(j);
}

static void topic_stats(struct queue *q, struct json *j)
{
	json_member_text(j, "topic", q->name);
	figure_write(&queue_figures_topic, FIGURE_STATS, q, q->vhost->broker->now_ms, j);
	queue_begin_second(q);
	write_rates(j, &q->rates->in, &q->rates->out);
	json_member_array(j, "groups");
	session_group_write_all(q->topic, j);
	json_array_end(j);
	add_partitions(j, q->topic);
}

static int exchange_stats(struct session *s, struct slice name, struct reply *r,
			  struct error *err)
{
	const struct exchange *x;
	struct json j;
	int rc = name.len
			 ? session_access_check(s, USER_READ, SUBJECT_EXCHANGE, name, err)
			 : session_access_check_monitor(
				   s, "STATS of the default exchange", err);

	if (rc < 0)
		return rc;
	x = name.len ? exchange_find(s->vhost, name) : NULL;
	if (name.len && !x)
		return session_missing(s, SUBJECT_EXCHANGE, name, err);
	reply_json(r, &j);
	json_object_begin(&j);
	json_member_text(&j, "exchange", x ? x->name : "-");
	if (x) {
		session_write_exchange_kind(x, &j);
		figure_write(&queue_figures_exchange, FIGURE_STATS, x, 0, &j);
	}
	unroutable_write(x ? &x->unroutable : &s->vhost->unroutable, &j);
	if (x)
		session_write_exchange_options(x, &j);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}

int session_report_stats(struct session *s, struct queue *q,
			 const struct stats_spec *spec, struct reply *r,
			 struct error *err)
{
	struct json j;

	if (spec->kind == STATS_EXCHANGE)
		return exchange_stats(s, spec->name, r, err);
	if (!q && session_access_check_monitor(s, "STATS without a name", err) < 0)
		return err->code;
	reply_json(r, &j);
	json_object_begin(&j);
	if (q && q->topic)
		topic_stats(q, &j);
	else if (q)
		queue_stats(q, &j);
	else
		write_broker(s->service, &j);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}

int session_report_history(struct session *s, struct queue *q,
			   const struct list_spec *spec, struct reply *r,
			   struct error *err)
{
	struct slice group = spec->only[LIST_BY_GROUP];
	struct topic_group *g = NULL;
	struct json j;

	if (group.data && !(q && q->topic))
		return error_set(err, TIDE_ESYNTAX,
				 "group= needs a topic, which queue= names");
	if (group.data && session_group_find(q, group, &g, err) < 0)
		return err->code;
	reply_json(r, &j);
	if (q)
		samples_write_of(s->service->samples, q, g, spec->max, &j);
	else
		samples_write(s->service->samples, spec->max, &j);
	reply_data(r);
	return TIDE_OK;
}

int session_report_sample(struct session *s, struct reply *r, struct error *err)
{
	int rc = session_access_check_monitor(s, "a sample of the broker", err);
	struct json j;

	if (rc < 0)
		return rc;
	reply_json(r, &j);
	samples_write_newest(s->service->samples, &j);
	reply_data(r);
	return TIDE_OK;
}
