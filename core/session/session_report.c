/* STATS: figures of what there is. */
#include "base/json.h"
#include "exchange_document.h"
#include "queue_document.h"
#include "session_leases.h"
#include "samples.h"
#include "session_figures.h"
#include "session_private.h"
#include "log/compact.h"
#include "broker/queue_figures.h"
#include "broker/retention.h"
#include "broker/unusable.h"

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
	for (unsigned i = 0; i < config_shards(&q->config); i++) {
		const struct shard *sh = q->by_index[i];

		json_object_begin(j);
		json_member_int(j, "shard", i);
		for (size_t k = 0; k < sizeof(states) / sizeof(states[0]); k++)
			json_member_int(j, states[k].name,
					sh ? (int64_t)shard_count(sh, states[k].state)
					   : 0);
		json_object_end(j);
	}
	json_array_end(j);
}

static void queue_stats(struct queue *q, struct json *j)
{
	json_member_text(j, "queue", q->name);
	figure_write(&queue_figures_all, FIGURE_STATS, q, q->vhost->broker->now_ms, j);
	queue_begin_second(q);
	queue_document_rates(j, &q->rates->in, &q->rates->out);
	queue_document_pause(q, j);
	session_leases_write(q, j);
	add_per_shard(j, q);
	add_order(j, q);
}

/* What keep-unread holds. */
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
	queue_document_rates(j, &q->rates->in, &q->rates->out);
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
		exchange_document_kind(x, &j);
		figure_write(&queue_figures_exchange, FIGURE_STATS, x, 0, &j);
	}
	unroutable_write(x ? &x->unroutable : &s->vhost->unroutable, &j);
	if (x)
		exchange_document_options(x, &j);
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
		session_figures_write(s->service, &j);
	json_object_end(&j);
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
