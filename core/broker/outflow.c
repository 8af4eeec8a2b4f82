#include "outflow.h"

#include "pause.h"
#include "wake.h"

#define NS_PER_MS 1000000

bool outflow_is_open(struct queue *q)
{
	int64_t now_ns = q->vhost->broker->mono_ms * NS_PER_MS;

	if (pause_is_on(q, QUEUE_OUT))
		return false;
	if (!q->config.rate_ns || q->next_delivery_ns <= now_ns)
		return true;
	wake_by(q, (q->next_delivery_ns + NS_PER_MS - 1) / NS_PER_MS);
	return false;
}

void outflow_count(struct queue *q)
{
	int64_t from_ns =
		(q->vhost->broker->mono_ms - OUTFLOW_CREDIT_MS) * (int64_t)NS_PER_MS;

	if (q->next_delivery_ns < from_ns)
		q->next_delivery_ns = from_ns;
	q->next_delivery_ns += q->config.rate_ns;
}
