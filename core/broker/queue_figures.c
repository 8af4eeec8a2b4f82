#include "queue_figures.h"

#include <math.h>
#include <string.h>

#include "exchange.h"
#include "figures/figure_rows.h"
#include "group.h"
#include "pause.h"
#include "queue.h"
#include "shard/dedupe.h"
#include "topic.h"

#define RATE_SPAN 10 /* seconds */
#define COUNT_OF(table) (unsigned)(sizeof(table) / sizeof((table)[0]))
/* A function of a row. */
#define READ(function, type, expression)         \
	static double function(const void *item) \
	{                                        \
		const struct type *it = item;    \
                                                 \
		return (double)(expression);     \
	}

/* ---- queues, and what topics have like them ---- */

static int64_t earliest(const struct queue *q, int64_t (*since)(const struct shard *))
{
	int64_t oldest = 0;

	for (unsigned i = 0; i < q->shard_count; i++)
		oldest = heap_earlier(oldest, since(q->shards[i]));
	return oldest;
}

static size_t in_windows(const struct queue *q)
{
	size_t sum = 0;

	for (unsigned i = 0; i < q->shard_count; i++)
		for (int k = 0; k < SHARD_STAGES; k++)
			sum += q->shards[i]->stages[k].window.count;
	return sum;
}

static size_t in_memory(const struct queue *q)
{
	const struct order_stats order = queue_order_stats(q);

	return in_windows(q) + order.parked - order.parked_in_redis;
}

/* The queue is left as it is. */
static double rate_of(const struct queue *q, const struct rate *rate, uint64_t counted)
{
	return rate_peek(rate, counted, q->vhost->broker->second, RATE_SPAN);
}

READ(queue_ready, queue, queue_count(it, ENTRY_READY))
READ(queue_delayed, queue, queue_count(it, ENTRY_DELAYED))
READ(queue_unacked, queue, queue_count(it, ENTRY_UNACKED))
READ(queue_buried, queue, queue_count(it, ENTRY_BURIED))
READ(queue_messages, queue,
     queue_ready(it) + queue_delayed(it) + queue_unacked(it) + queue_buried(it))
READ(queue_oldest_ready, queue, earliest(it, shard_age_ready))
READ(queue_oldest_front, queue, earliest(it, shard_age_front))
READ(queue_oldest_lease, queue, earliest(it, shard_age_held))
READ(queue_in, queue, it->rates ? rate_of(it, &it->rates->in, it->counters.published) : 0)
READ(queue_out, queue,
     it->rates ? rate_of(it, &it->rates->out, it->counters.delivered) : 0)
/* Bytes are counted only if they are limited. */
READ(queue_waiting_bytes, queue,
     it->config.max_bytes ? (double)queue_limit_waiting(it).bytes : NAN)
READ(queue_consumers, queue, it->consumer_count)
READ(queue_in_memory, queue, in_memory(it))
READ(queue_width, queue, it->config.shards)
/* The queue remembers the count of mixed shards. */
READ(queue_mixed_shards, queue, queue_count_mixed((struct queue *)it))
READ(queue_dedupe_ids, queue, publish_ids_count(it->ids))
READ(queue_paused_in, queue, pause_is_on(it, QUEUE_IN))
READ(queue_paused_out, queue, pause_is_on(it, QUEUE_OUT))
READ(queue_groups_blocked, queue, queue_order_stats(it).groups_blocked)

#define READ_COUNTER(counter, ...) READ(queue_##counter, queue, it->counters.counter)
BOTH_COUNTERS(READ_COUNTER)
QUEUE_COUNTERS(READ_COUNTER)

#define ROW_OF(object, read, name, shown, sort, script, metric, kind, column, help) \
	{ name, shown, sort, script, metric, kind, object##_##read, help },
#define COUNTER(object, counter, help)                                                 \
	{ #counter,       FIGURE_STATS,    NULL, NULL, "tidemq_" #object "_" #counter, \
	  FIGURE_COUNTER, queue_##counter, help },

#define QUEUE_ROW(...) ROW_OF(queue, __VA_ARGS__)
#define QUEUE_COUNTER(counter, help, ...) COUNTER(queue, counter, help)
static const struct figure queue_rows[] = { QUEUE_FIGURES(QUEUE_ROW) BOTH_COUNTERS(
	QUEUE_COUNTER) QUEUE_COUNTERS(QUEUE_COUNTER) };

/* ---- topics ---- */

static struct topic_sum sum_of(const struct queue *q)
{
	return q->definition.unusable ? (struct topic_sum){ 0 } : topic_sum(q->topic);
}

static uint64_t largest_lag(const struct topic *t)
{
	const struct topic_group *g;
	uint64_t most = 0;

	for (g = t->groups ? t->groups->by_name : NULL; g; g = g->hh.next) {
		uint64_t lag = group_lag_all(g);

		most = lag > most ? lag : most;
	}
	return most;
}

static unsigned count_readers(const struct topic *t)
{
	const struct topic_group *g;
	unsigned count = 0;

	if (t->groups)
		TAILQ_FOREACH (g, &t->groups->readers, link)
			count += g->member_count;
	return count;
}

#define topic_width queue_width
#define topic_in queue_in
#define topic_out queue_out
#define topic_consumers queue_consumers
#define topic_dedupe_ids queue_dedupe_ids
READ(topic_kept, queue, sum_of(it).end - sum_of(it).start)
READ(topic_bytes, queue, sum_of(it).bytes)
READ(topic_appended, queue, sum_of(it).end)
READ(topic_groups, queue, it->topic->groups ? HASH_COUNT(it->topic->groups->by_name) : 0)
READ(topic_lag, queue, largest_lag(it->topic))
READ(topic_readers, queue, count_readers(it->topic))

#define TOPIC_ROW(...) ROW_OF(topic, __VA_ARGS__)
#define TOPIC_COUNTER(counter, help_queue, help) COUNTER(topic, counter, help)
static const struct figure topic_rows[] = { TOPIC_FIGURES(TOPIC_ROW)
						    BOTH_COUNTERS(TOPIC_COUNTER) };

/* ---- groups ---- */

static uint64_t held_by(const struct topic_group *g)
{
	uint64_t held = 0;

	for (unsigned i = 0; i < group_width(g); i++)
		if (group_claim(g, i))
			held += group_claim(g, i)->claim.held;
	return held;
}

static double since_or_nan(int64_t since_ms)
{
	return since_ms < 0 ? NAN : (double)since_ms;
}

READ(group_members, topic_group, it->member_count)
READ(group_gets, topic_group, it->pull_count)
READ(group_lag, topic_group, group_lag_all(it))
READ(group_since, topic_group, since_or_nan(group_lag_since(it)))
READ(group_held, topic_group, held_by(it))
READ(group_given_up, topic_group, it->given_up)
READ(group_paused, topic_group, group_is_paused(it))

#define GROUP_ROW(...) ROW_OF(group, __VA_ARGS__)
static const struct figure group_rows[] = { GROUP_FIGURES(GROUP_ROW) };

/* ---- exchanges ---- */

READ(exchange_bindings, exchange, it->binding_count)
READ(exchange_published, exchange, it->published)
READ(exchange_unroutable, exchange, it->unroutable.count)

#define EXCHANGE_ROW(...) ROW_OF(exchange, __VA_ARGS__)
static const struct figure exchange_rows[] = { EXCHANGE_FIGURES(EXCHANGE_ROW) };

_Static_assert(COUNT_OF(queue_rows) <= FIGURE_ROWS_MAX, "a table has room for its rows");

const struct figure_table queue_figures_all = { queue_rows, COUNT_OF(queue_rows) };
const struct figure_table queue_figures_topic = { topic_rows, COUNT_OF(topic_rows) };
const struct figure_table queue_figures_group = { group_rows, COUNT_OF(group_rows) };
const struct figure_table queue_figures_exchange = { exchange_rows,
						     COUNT_OF(exchange_rows) };

/* ---- tide.queue ---- */

static const void *find_for_script(void *ctx, struct slice vhost, struct slice name)
{
	struct vhost *v = vhost_find(ctx, vhost);
	const struct queue *q = v ? queue_find(v, name) : NULL;

	/* How many an unusable one has is not known. */
	return q && !q->definition.unusable ? q : NULL;
}

static const struct figure *of_topic(const char *script)
{
	for (const struct figure *f = topic_rows; f < topic_rows + COUNT_OF(topic_rows);
	     f++)
		if (f->script && strcmp(f->script, script) == 0)
			return f;
	return NULL;
}

static double read_for_script(const void *queue, unsigned row)
{
	const struct queue *q = queue;
	const struct figure *f = &queue_rows[row];

	if (q->topic)
		f = of_topic(f->script);
	return f ? figure_script(f, q, q->vhost->broker->now_ms) : NAN;
}

struct queue_facts queue_figures_for_scripts(struct broker *b)
{
	return (struct queue_facts){ b, find_for_script, read_for_script };
}
