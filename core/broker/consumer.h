/* consumer.h: somebody who takes messages of a queue: a subscription, or a GET
 * that waits.
 *
 * A queue has two lists of consumers: those who can take a message now, in
 * whose order it deals, and those who cannot, because their credit is used up
 * or their connection does not drain. GETs whose time is over but for a read of
 * Redis are in a third one too. */
#ifndef TIDE_BROKER_CONSUMER_H
#define TIDE_BROKER_CONSUMER_H

#include <sys/queue.h>

#include "base/heap.h"
#include "base/slice.h"
#include "base/table.h"

struct channel;
struct queue;
struct reply;

struct consumer {
	TAILQ_ENTRY(consumer) queue_link;
	TAILQ_ENTRY(consumer) channel_link;
	struct queue *queue;
	struct channel *channel;
	char *sid; /* NULL for a GET */
	uint32_t prefetch;
	uint32_t unacked;
	bool is_auto_ack;
	bool is_waiting; /* in the list of those who cannot take */
	bool is_charged; /* with a failure, as its channel closes */
	/* It has ended, and is freed when the last message it was given is settled. */
	bool is_gone;
	uint64_t delivered;
	struct reply *confirm; /* the OK of its SUB has not left: nothing may come */

	/* A GET: the reply that waits, how many it wants, until when. */
	bool is_extended; /* its time is over, but a read of Redis is under way */
	TAILQ_ENTRY(consumer) extended_link;
	struct reply *reply;
	uint32_t max;
	struct heap_node wait;

	UT_hash_handle hh; /* by sid, in the channel's hash */
};

TAILQ_HEAD(consumer_list, consumer);

#endif
