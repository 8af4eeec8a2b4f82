/* consumer.h: somebody who takes messages of a queue: a subscription, or a GET
 * that waits.
 *
 * A queue has two lists of consumers: those who can take a message now, in
 * whose order it deals, and those who cannot: their credit is used up, their client
 * does not read, or they are a GET's whose more urgent queue is being read. A GET is one
 * consumer in each of its queues: getter.h.
 *
 * Who makes a consumer embeds this, and decides by its consumer_ops how a message
 * reaches the client. */
#pragma once

#include <sys/queue.h>

#include "shard/entry.h"

struct consumer;
struct getter;
struct queue;

struct consumer_ops {
	/* Its client takes more. Not asked of a GET. */
	bool (*can_take)(const struct consumer *c);
	/* Send the message, or gather it for the answer of a GET. Unless is_auto_ack the
	 * message is held; it gets its holder here. */
	void (*on_deliver)(struct consumer *c, struct entry *e, bool is_redelivered);
	/* The queue is deleted. The consumer must be destroyed; a GET with all of its. */
	void (*on_cancel)(struct consumer *c);
};

struct consumer {
	const struct consumer_ops *ops;
	TAILQ_ENTRY(consumer) queue_link;
	struct queue *queue; /* NULL: it is in no queue's list any more */
	uint32_t prefetch;
	uint32_t unacked;        /* of a subscription */
	uint32_t ack_timeout_ms; /* the lease that it wants; 0: the queue's */
	bool is_auto_ack;
	bool is_waiting; /* in the list of those who cannot take */
	uint64_t delivered;

	struct getter *getter; /* whose it is; NULL: a subscription */
	bool is_reader;        /* the GET waits for a read of this queue */
	TAILQ_ENTRY(consumer) reader_link;
};

TAILQ_HEAD(consumer_list, consumer);

/* Who holds the messages that consumers were given: a client's channel embeds it. */
struct holder {
	/* The message leaves it: it is settled, returned, or its queue is deleted. The
	 * entry's holder and consumer must be NULL afterwards. */
	void (*on_release)(struct entry *e);
};

/* Put it into a queue's list. The rest of the consumer is filled in. */
void consumer_add(struct queue *q, struct consumer *c);
/* Harmless when it is in none. */
void consumer_remove(struct consumer *c);
/* Its credit or its client may have changed. */
void consumer_update(struct consumer *c);
/* One of its messages is no longer held: its credit comes back. */
void consumer_settled(struct consumer *c);

/* If somebody holds the message, it does so no longer. */
static inline void consumer_release(struct entry *e)
{
	if (e->holder)
		e->holder->on_release(e);
}
