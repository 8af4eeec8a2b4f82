/* consumer.h: somebody who takes messages of a queue: a subscription, or a GET
 * that waits.
 *
 * A queue lists all its consumers in the order of their arrival. Those who can take a
 * message now are in its heap `able` too. The others have used up their credit, their
 * client does not read, or they are a GET's whose more urgent queue is being read. The
 * heap's order is that of the dealing: a higher priority comes first; among equals, the
 * one whose turn is longest ago. A GET is one consumer in each of its queues: getter.h.
 *
 * Who makes a consumer embeds this, and decides by its consumer_ops how a message
 * reaches the client. */
#pragma once

#include <sys/queue.h>

#include "base/heap.h"
#include "lease.h"

struct broker;
struct getter;
struct member;
struct queue;
struct record;
struct refusal;

/* A message of a topic, handed out. */
struct record_delivery {
	const struct record *record; /* a view, good for the call */
	unsigned partition;
	uint64_t tag; /* 0 = no acknowledgement is wanted */
	uint32_t attempt;
	bool is_redelivered;
};

struct consumer_ops {
	/* Does the client take more? A GET has no such function, and no on_assigned. */
	bool (*can_take)(const struct consumer *c);
	/* Send the message, or gather it for the answer of a GET. Unless is_auto_ack the
	 * message is held; it gets its tag and its lease here. `head` has its headers for
	 * this delivery; NULL: its own. */
	void (*on_deliver)(struct consumer *c, struct entry *e, struct msg *head,
			   bool is_redelivered);
	/* Of a single-active queue: it is the active one now, or is no longer. */
	void (*on_active)(struct consumer *c);
	/* The same for a message of a topic; it is held already. */
	void (*on_record)(struct consumer *c, const struct record_delivery *d);
	/* Of a topic: the partitions that it has are others. */
	void (*on_assigned)(struct consumer *c);
	/* Of a topic: it would have read `from` next, and goes on at `to`: what lies
	 * between is no longer kept. */
	void (*on_skipped)(struct consumer *c, unsigned partition, uint64_t from,
			   uint64_t to);
	/* So many ms are left of the lease of what it holds by that tag. */
	void (*on_lease)(struct consumer *c, uint64_t tag, int64_t left_ms);
	/* The leases that its queue gives may be others from now on: declare.c. Not told
	 * to a GET. */
	void (*on_updated)(struct consumer *c);
	/* The queue is deleted. The consumer must be destroyed; a GET with all of its. */
	void (*on_cancel)(struct consumer *c);
};

struct consumer {
	const struct consumer_ops *ops;
	TAILQ_ENTRY(consumer) queue_link;
	struct heap_node turn; /* in queue.able, while it can take a message */
	struct queue *queue;   /* NULL: it is in no queue's list any more */
	int32_t priority;      /* of 16 bits; of a GET: 0 */
	uint32_t prefetch;
	struct lease lease;      /* of a GET it holds nothing: see getter.h */
	uint32_t ack_timeout_ms; /* the lease that it wants; 0: the queue's */
	struct credit *credit;   /* that it shares with others; NULL: none */
	struct heap_node want;   /* in credit.wanting */
	uint32_t rank;           /* of 16 bits: who gets the credit, the lowest first */
	struct heap_node line;   /* of a single-active queue */
	/* May this consumer take messages? Always, but in a single-active queue; of a
	 * topic: has it something to take? */
	bool is_active;
	bool is_auto_ack;
	bool is_exclusive; /* its queue has no other subscription */
	uint64_t delivered;

	struct member *member; /* of a topic: what it is there; else NULL */
	struct getter *getter; /* whose it is; NULL: a subscription */
	bool is_reader;        /* the GET waits for a read of this queue */
	TAILQ_ENTRY(consumer) reader_link;

	/* Of a GET that takes only what matches: it has looked in vain, and does so again
	 * when something has become ready. */
	bool has_looked;
	TAILQ_ENTRY(consumer) look_link;
	/* The refusals of scripts of deliver/; NULL: there are none. A subscription
	 * with refusals searches, too. */
	struct refusal *refusal;
};

/* A limit that several consumers share: those of a channel with a prefetch. */
struct credit {
	struct broker *broker;
	uint32_t limit; /* unacked messages at most; 0: no limit */
	uint32_t used;
	struct heap wanting;
	int64_t turns;
	struct consumer *tried; /* who had the last chance; NULL: it has gone */
	int64_t tried_until_ms; /* by the broker's mono_ms */
	bool is_listed; /* in broker.credits: there is room, and one who wants it */
	TAILQ_ENTRY(credit) link;
};

TAILQ_HEAD(consumer_list, consumer);

static inline bool consumer_is_able(const struct consumer *c)
{
	return heap_has(&c->turn);
}

/* Has the consumer as many messages as it may? */
static inline bool consumer_is_full(const struct consumer *c)
{
	return c->lease.count >= (c->lease.is_stalled ? 1 : c->prefetch);
}

/* Of what it is given next. */
struct lease *consumer_lease(struct consumer *c);

/* A key in a heap: a higher priority first, then a lower number. There are numbers for 89
 * years at 100,000 a second. */
static inline int64_t consumer_place(int32_t priority, int64_t number)
{
	return -(int64_t)priority * (INT64_C(1) << 48) + number;
}

/* Put it into a queue's list. The rest of the consumer is filled in. */
void consumer_add(struct queue *q, struct consumer *c);
/* Harmless when it is in none. */
void consumer_remove(struct consumer *c);
/* Call when the credit or the client of the consumer may have changed. */
void consumer_update(struct consumer *c);
/* Of a topic: it has something that it may be given; or nothing more. */
void consumer_wake(struct consumer *c);
void consumer_rest(struct consumer *c);
/* The search of the consumer has found no match. */
void consumer_looked(struct consumer *c);
/* Something has become ready: those who have looked in vain do so again. */
void consumer_look_again(struct queue *q);
/* The consumer of the queue that is to get the next message; NULL: nobody can take one.
 */
struct consumer *consumer_next(struct queue *q);
/* A message goes to the consumer: the next one is for the next consumer of its
 * priority. */
void consumer_pass_turn(struct consumer *c);
/* Choose the active consumer of a single-active queue anew, before the queue delivers:
 * one has come, gone, or settled its last message. */
void consumer_choose_active(struct queue *q);
/* So many of its messages are no longer held: its credit comes back. */
void consumer_settled(struct consumer *c, uint32_t count);

/* If somebody holds the message, it does so no longer. */
static inline void consumer_release(struct entry *e)
{
	if (e->lease)
		e->lease->holder->on_release(e);
}

TAILQ_HEAD(credit_list, credit);

void credit_init(struct credit *cr, struct broker *b, uint32_t limit);
/* Call when the last consumer has gone, and the credit is whole again. */
void credit_deinit(struct credit *cr);
/* Another limit from now on. */
void credit_change(struct credit *cr, uint32_t limit);
/* The consumer shares the credit from now on, with what it holds. Harmless if it does
 * already. */
void consumer_share(struct consumer *c, struct credit *cr);
static inline bool credit_is_full(const struct credit *cr)
{
	return cr->used >= cr->limit;
}
/* Give chances, before queues deal and after. */
void credit_turn(struct broker *b);
