#include "metrics_table.h"

#include <math.h>

#include "broker/exchange.h"
#include "broker/group.h"
#include "broker/pause.h"
#include "broker/topic.h"
#include "queue_document.h"
#include "session_private.h"

#define COUNTER(name, help, value)                               \
	{                                                        \
		{ name, EXPOSITION_COUNTER, help }, false, value \
	}
#define GAUGE(name, help, value)                               \
	{                                                      \
		{ name, EXPOSITION_GAUGE, help }, false, value \
	}
#define LARGEST(name, help, value)                            \
	{                                                     \
		{ name, EXPOSITION_GAUGE, help }, true, value \
	}
#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

/* ---- queues, and what topics count like them ---- */

#define NUMBER(function, type, member)                       \
	static double function(const void *item)             \
	{                                                    \
		return (double)((const type *)item)->member; \
	}
#define QUEUE_COUNTER(field) NUMBER(queue_##field, struct queue, counters.field)
#define QUEUE_STATE(name, state)                                 \
	static double queue_##name(const void *item)             \
	{                                                        \
		return (double)queue_count(item, ENTRY_##state); \
	}

QUEUE_STATE(ready, READY)
QUEUE_STATE(delayed, DELAYED)
QUEUE_STATE(unacked, UNACKED)
QUEUE_STATE(buried, BURIED)
QUEUE_COUNTER(published)
QUEUE_COUNTER(duplicates)
QUEUE_COUNTER(unranked)
QUEUE_COUNTER(delivered)
QUEUE_COUNTER(redelivered)
QUEUE_COUNTER(acked)
QUEUE_COUNTER(nacked)
QUEUE_COUNTER(returned)
QUEUE_COUNTER(timed_out)
QUEUE_COUNTER(paced)
QUEUE_COUNTER(expired)
QUEUE_COUNTER(removed)
QUEUE_COUNTER(death_limited)
QUEUE_COUNTER(dead_lettered)
QUEUE_COUNTER(refused)
QUEUE_COUNTER(overflowed)

NUMBER(queue_consumers, struct queue, consumer_count)

static double age_of(const struct queue *q, int64_t since_ms)
{
	int64_t age_ms = since_ms ? q->vhost->broker->now_ms - since_ms : 0;

	return age_ms > 0 ? (double)age_ms / 1000 : 0;
}

static double queue_oldest_ready(const void *item)
{
	return age_of(item, queue_document_since(item, shard_age_ready));
}

static double queue_oldest_lease(const void *item)
{
	return age_of(item, queue_document_since(item, shard_age_held));
}

static double queue_paused_in(const void *item)
{
	return pause_is_on(item, QUEUE_IN);
}

static double queue_paused_out(const void *item)
{
	return pause_is_on(item, QUEUE_OUT);
}

static double queue_groups_blocked(const void *item)
{
	const struct queue *q = item;
	struct order_stats sum = { 0 };

	for (unsigned i = 0; i < q->shard_count; i++)
		if (q->shards[i]->order)
			order_add_stats(q->shards[i]->order, &sum);
	return (double)sum.groups_blocked;
}

static const struct metric queue_metrics[] = {
	GAUGE("tidemq_queue_messages_ready", "Messages that consumers may have now.",
	      queue_ready),
	GAUGE("tidemq_queue_messages_delayed", "Messages that are not due yet.",
	      queue_delayed),
	GAUGE("tidemq_queue_messages_unacked", "Messages that consumers hold.",
	      queue_unacked),
	GAUGE("tidemq_queue_messages_buried", "Messages put aside after failures.",
	      queue_buried),
	LARGEST("tidemq_queue_oldest_ready_seconds",
		"How long the oldest ready message could have been delivered; 0 without "
		"one.",
		queue_oldest_ready),
	LARGEST("tidemq_queue_oldest_lease_seconds",
		"How long the oldest unacked message has been held; 0 without one.",
		queue_oldest_lease),
	GAUGE("tidemq_queue_consumers", "Subscriptions.", queue_consumers),
	GAUGE("tidemq_queue_paused_in", "1: publishes are paused.", queue_paused_in),
	GAUGE("tidemq_queue_paused_out", "1: deliveries are paused.", queue_paused_out),
	GAUGE("tidemq_queue_groups_blocked",
	      "Groups of order-by that wait for a message at work.",
	      queue_groups_blocked),
	COUNTER("tidemq_queue_published", "Messages that the queue took.",
		queue_published),
	COUNTER("tidemq_queue_duplicates",
		"Messages not taken because their id had been seen.", queue_duplicates),
	COUNTER("tidemq_queue_refused",
		"Messages not taken because the queue was full or paused.",
		queue_refused),
	COUNTER("tidemq_queue_unranked", "Messages whose priority script failed.",
		queue_unranked),
	COUNTER("tidemq_queue_delivered", "Deliveries.", queue_delivered),
	COUNTER("tidemq_queue_redelivered", "Deliveries that were not the first.",
		queue_redelivered),
	COUNTER("tidemq_queue_acked", "Messages acknowledged.", queue_acked),
	COUNTER("tidemq_queue_nacked", "Deliveries that consumers gave back.",
		queue_nacked),
	COUNTER("tidemq_queue_returned", "Deliveries that came back without a failure.",
		queue_returned),
	COUNTER("tidemq_queue_timed_out", "Deliveries not settled in time.",
		queue_timed_out),
	COUNTER("tidemq_queue_paced", "Returns that had to wait.", queue_paced),
	COUNTER("tidemq_queue_expired", "Messages that lived too long.", queue_expired),
	COUNTER("tidemq_queue_dead_lettered", "Messages sent to a dead-letter target.",
		queue_dead_lettered),
	COUNTER("tidemq_queue_death_limited",
		"Messages buried because they had died too often.", queue_death_limited),
	COUNTER("tidemq_queue_removed", "Messages removed by their id.", queue_removed),
	COUNTER("tidemq_queue_overflowed",
		"Messages given up because the queue was over a limit.",
		queue_overflowed),
};

static const void *next_queue(struct walk *w)
{
	return walk_queue(w);
}

static struct vhost *vhost_of_queue(const void *item)
{
	return ((const struct queue *)item)->vhost;
}

static unsigned label_queue(const void *item, struct exposition_label *out)
{
	out[0] = (struct exposition_label){ "queue", queue_slice(item) };
	return 1;
}

/* ---- topics ---- */

static double topic_messages(const void *item)
{
	const struct topic_sum sum = topic_sum(((const struct queue *)item)->topic);

	return (double)(sum.end - sum.start);
}

static double topic_bytes(const void *item)
{
	return (double)topic_sum(((const struct queue *)item)->topic).bytes;
}

static double topic_appended(const void *item)
{
	return (double)topic_sum(((const struct queue *)item)->topic).end;
}

NUMBER(topic_partitions, struct queue, config.shards)

static double topic_readers(const void *item)
{
	return session_group_count_readers(((const struct queue *)item)->topic);
}

static const struct metric topic_metrics[] = {
	GAUGE("tidemq_topic_messages", "Messages that are kept.", topic_messages),
	GAUGE("tidemq_topic_size_bytes", "Their size in Redis.", topic_bytes),
	GAUGE("tidemq_topic_partitions", "Partitions.", topic_partitions),
	GAUGE("tidemq_topic_consumers", "Subscriptions.", queue_consumers),
	GAUGE("tidemq_topic_readers", "Subscriptions without a group.", topic_readers),
	COUNTER("tidemq_topic_appended",
		"Messages appended since the topic was declared.", topic_appended),
	COUNTER("tidemq_topic_published", "Messages that the topic took.",
		queue_published),
	COUNTER("tidemq_topic_duplicates",
		"Messages not taken because their id had been seen.", queue_duplicates),
	COUNTER("tidemq_topic_delivered", "Deliveries to all groups and readers.",
		queue_delivered),
	COUNTER("tidemq_topic_acked", "Messages acknowledged, by all groups.",
		queue_acked),
	COUNTER("tidemq_topic_nacked", "Deliveries that consumers gave back.",
		queue_nacked),
	COUNTER("tidemq_topic_returned", "Deliveries that came back without a failure.",
		queue_returned),
	COUNTER("tidemq_topic_timed_out", "Deliveries not settled in time.",
		queue_timed_out),
	COUNTER("tidemq_topic_paced", "Returns that had to wait.", queue_paced),
	COUNTER("tidemq_topic_dead_lettered", "Messages sent to a dead-letter target.",
		queue_dead_lettered),
};

static const void *next_topic(struct walk *w)
{
	return walk_topic(w);
}

static unsigned label_topic(const void *item, struct exposition_label *out)
{
	out[0] = (struct exposition_label){ "topic", queue_slice(item) };
	return 1;
}

/* ---- groups ---- */

static double group_lag(const void *item)
{
	return (double)session_group_lag(item);
}

static double group_lag_seconds(const void *item)
{
	const struct topic_group *g = item;
	int64_t since_ms = session_group_since(g);

	return since_ms < 0 ? NAN : age_of(g->topic->queue, since_ms);
}

NUMBER(group_members, struct topic_group, member_count)

static double group_held(const void *item)
{
	const struct topic_group *g = item;
	uint64_t held = 0;

	for (unsigned i = 0; i < group_width(g); i++)
		if (group_claim(g, i))
			held += group_claim(g, i)->claim.held;
	return (double)held;
}

NUMBER(group_given_up, struct topic_group, given_up)

static const struct metric group_metrics[] = {
	GAUGE("tidemq_group_lag_messages", "Messages that the group has not settled.",
	      group_lag),
	LARGEST("tidemq_group_lag_seconds",
		"Age of the oldest of these; absent when it is not in memory.",
		group_lag_seconds),
	GAUGE("tidemq_group_members", "Subscriptions.", group_members),
	GAUGE("tidemq_group_messages_unacked", "Messages that members hold.", group_held),
	COUNTER("tidemq_group_given_up",
		"Messages that failed for good, without a dead-letter target.",
		group_given_up),
};

static const void *next_group(const void *met, const void *part)
{
	const struct topic *t = ((const struct queue *)met)->topic;

	if (part)
		return ((const struct topic_group *)part)->hh.next;
	return t->groups ? t->groups->by_name : NULL;
}

static unsigned label_group(const void *item, struct exposition_label *out)
{
	const struct topic_group *g = item;

	out[0] = (struct exposition_label){ "topic", queue_slice(g->topic->queue) };
	out[1] = (struct exposition_label){ "group",
					    (struct slice){ g->name, g->name_len } };
	return 2;
}

/* ---- exchanges ---- */

NUMBER(exchange_published, struct exchange, published)
NUMBER(exchange_unroutable, struct exchange, unroutable.count)
NUMBER(exchange_bindings, struct exchange, binding_count)

static const struct metric exchange_metrics[] = {
	COUNTER("tidemq_exchange_published", "Messages published to it.",
		exchange_published),
	COUNTER("tidemq_exchange_unroutable", "Of these, those that no queue took.",
		exchange_unroutable),
	GAUGE("tidemq_exchange_bindings", "Bindings from it.", exchange_bindings),
};

static const void *next_exchange(struct walk *w)
{
	return walk_exchange(w);
}

static struct vhost *vhost_of_exchange(const void *item)
{
	return ((const struct exchange *)item)->vhost;
}

static unsigned label_exchange(const void *item, struct exposition_label *out)
{
	out[0] = (struct exposition_label){ "exchange", exchange_slice(item) };
	return 1;
}

const struct metrics_table metrics_table_all[METRICS_TABLES] = {
	{ exchange_metrics, COUNT_OF(exchange_metrics), next_exchange, NULL,
	  vhost_of_exchange, label_exchange },
	{ topic_metrics, COUNT_OF(topic_metrics), next_topic, NULL, vhost_of_queue,
	  label_topic },
	{ group_metrics, COUNT_OF(group_metrics), next_topic, next_group, vhost_of_queue,
	  label_group },
	{ queue_metrics, COUNT_OF(queue_metrics), next_queue, NULL, vhost_of_queue,
	  label_queue },
};

_Static_assert(COUNT_OF(queue_metrics) <= METRICS_TABLE_MAX, "rows of a table");
