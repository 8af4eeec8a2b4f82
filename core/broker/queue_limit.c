#include "queue_limit.h"

#include <inttypes.h>

struct queue_limit queue_limit_waiting(const struct queue *q)
{
	struct queue_limit has = {
		.messages = queue_count(q, ENTRY_READY) + queue_count(q, ENTRY_DELAYED),
	};

	for (unsigned i = 0; i < q->shard_count; i++)
		has.bytes += q->shards[i]->waiting_bytes;
	return has;
}

bool queue_limit_is_over(const struct queue *q, struct queue_limit more)
{
	const struct queue_limit has = queue_limit_waiting(q);
	const struct queue_config *c = &q->config;

	return (c->max_length && has.messages + more.messages > c->max_length) ||
	       (c->max_bytes && has.bytes + more.bytes > c->max_bytes);
}

int queue_limit_refuse(const struct queue *q, struct queue_limit more, struct error *err)
{
	const struct queue_limit has = queue_limit_waiting(q);
	const struct queue_config *c = &q->config;

	if (c->max_length && has.messages + more.messages > c->max_length)
		return error_set(err, TIDE_EFULL,
				 "queue '%s' is full: waiting messages: %" PRIu64
				 ", max-length=%" PRIu64,
				 q->name, has.messages, c->max_length);
	return error_set(err, TIDE_EFULL,
			 "queue '%s' is full: waiting bytes: %" PRIu64
			 ", of this message: %" PRIu64 ", max-bytes=%" PRIu64,
			 q->name, has.bytes, more.bytes, c->max_bytes);
}
