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

static bool is_over(const struct config *c, struct queue_limit n)
{
	return (c->max_length && n.messages > c->max_length) ||
	       (c->max_bytes && n.bytes > c->max_bytes);
}

bool queue_limit_is_over(const struct queue *q, struct queue_limit more)
{
	struct queue_limit n = queue_limit_waiting(q);

	n.messages += more.messages;
	n.bytes += more.bytes;
	return is_over(&q->config, n);
}

static struct queue_limit stored(const struct queue *q)
{
	struct queue_limit n = queue_limit_waiting(q), unstored = { 0, 0 };

	for (unsigned i = 0; i < q->shard_count; i++) {
		unstored.messages += q->shards[i]->unstored.messages;
		unstored.bytes += q->shards[i]->unstored.bytes;
	}
	/* Some of that may be held. */
	n.messages -= n.messages < unstored.messages ? n.messages : unstored.messages;
	n.bytes -= n.bytes < unstored.bytes ? n.bytes : unstored.bytes;
	return n;
}

bool queue_limit_has_excess(const struct queue *q, struct queue_limit more)
{
	struct queue_limit n = stored(q);

	n.messages += more.messages;
	n.bytes += more.bytes;
	return is_over(&q->config, n);
}

uint64_t queue_limit_excess(const struct queue *q)
{
	uint64_t n = stored(q).messages, max = q->config.max_length;

	return q->config.max_bytes || n <= max ? 0 : n - max;
}

uint64_t queue_limit_over(const struct queue *q)
{
	const struct config *c = &q->config;
	struct queue_limit n = stored(q);
	uint64_t messages = c->max_length && n.messages > c->max_length
				    ? n.messages - c->max_length
				    : 0;
	uint64_t mean = n.bytes / (n.messages ? n.messages : 1);
	uint64_t by_bytes = 0;

	if (c->max_bytes && n.bytes > c->max_bytes)
		by_bytes = 1 + (n.bytes - c->max_bytes) / (2 * (mean + 1));
	return messages > by_bytes ? messages : by_bytes;
}

int queue_limit_refuse(const struct queue *q, struct queue_limit more, struct error *err)
{
	const struct queue_limit has = queue_limit_waiting(q);
	const struct config *c = &q->config;

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
