#include "queue_fact.h"

#include "broker.h"
#include "queue_limit.h"
#include "topic.h"

#define RATE_SPAN 10 /* seconds */

double queue_fact_rate_in(const struct queue *q)
{
	return q->rates ? rate_peek(&q->rates->in, q->counters.published,
				    q->vhost->broker->second, RATE_SPAN)
			: 0;
}

double queue_fact_rate_out(const struct queue *q)
{
	return q->rates ? rate_peek(&q->rates->out, q->counters.delivered,
				    q->vhost->broker->second, RATE_SPAN)
			: 0;
}

static double age(const struct queue *q)
{
	int64_t now_ms = q->vhost->broker->now_ms, oldest = 0;

	for (unsigned i = 0; i < q->shard_count; i++)
		oldest = heap_earlier(oldest, shard_age_front(q->shards[i]));
	return oldest && oldest < now_ms ? (double)(now_ms - oldest) : 0;
}

static double count(const struct queue *q, enum entry_state state)
{
	return (double)queue_count(q, state);
}

/* What a queue and a topic have differently. */
static double read_topic(const struct queue *q, enum queue_fact fact)
{
	const struct topic_sum sum = topic_sum(q->topic);

	if (fact == QUEUE_FACT_MESSAGES)
		return (double)(sum.end - sum.start);
	return fact == QUEUE_FACT_BYTES ? (double)sum.bytes : -1;
}

static double read_queue(const struct queue *q, enum queue_fact fact)
{
	switch (fact) {
	case QUEUE_FACT_READY:
		return count(q, ENTRY_READY);
	case QUEUE_FACT_UNACKED:
		return count(q, ENTRY_UNACKED);
	case QUEUE_FACT_DELAYED:
		return count(q, ENTRY_DELAYED);
	case QUEUE_FACT_BURIED:
		return count(q, ENTRY_BURIED);
	case QUEUE_FACT_MESSAGES:
		return count(q, ENTRY_READY) + count(q, ENTRY_UNACKED) +
		       count(q, ENTRY_DELAYED) + count(q, ENTRY_BURIED);
	case QUEUE_FACT_BYTES: /* they are known only if they are limited */
		return q->config.max_bytes ? (double)queue_limit_waiting(q).bytes : -1;
	case QUEUE_FACT_OLDEST_MS:
		return age(q);
	default:
		return -1;
	}
}

static double read_fact(const void *queue, enum queue_fact fact)
{
	const struct queue *q = queue;

	if (fact == QUEUE_FACT_CONSUMERS)
		return q->consumer_count;
	if (fact == QUEUE_FACT_IN_RATE)
		return queue_fact_rate_in(q);
	if (fact == QUEUE_FACT_OUT_RATE)
		return queue_fact_rate_out(q);
	return q->topic ? read_topic(q, fact) : read_queue(q, fact);
}

static const void *find(void *ctx, struct slice vhost, struct slice name)
{
	struct vhost *v = vhost_find(ctx, vhost);
	const struct queue *q = v ? queue_find(v, name) : NULL;

	/* How many an unusable one has is not known. */
	return q && !q->definition.unusable ? q : NULL;
}

struct queue_facts queue_fact_source(struct broker *b)
{
	return (struct queue_facts){ b, find, read_fact };
}
