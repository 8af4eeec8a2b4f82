/* lease.h: what one consumer holds, and for how long it may.
 *
 * A consumer works on one message after the other. So the lease of a message begins when
 * it is the oldest that its consumer holds; until then the message only waits there. A
 * consumer is a subscription, or one GET with what it took. A client with several
 * subscriptions works on what it was given first: that is looked at when a lease ends.
 *
 * The messages of a lease are entries of queues, or runs (log/claim.h) of one topic.
 * Times are those of the clock that nobody sets. What happens when a lease ends:
 * turn.c.
 */
#pragma once

#include <stdint.h>

#include "base/heap.h"
#include "log/claim.h"
#include "shard/entry.h"

struct broker;
struct consumer;
struct consumer_view;
struct group_claim;
struct lapse;
struct queue;

/* The holder of messages that consumers were given: a client's channel embeds it. */
struct holder {
	/* The message leaves it: it is settled, returned, or its queue is deleted. Calls
	 * lease_remove. */
	void (*on_release)(struct entry *e);
	/* Whose it is, as scripts see it. `c`: which of its consumers; NULL: a GET. */
	void (*describe)(const struct holder *h, const struct consumer *c,
			 struct consumer_view *out);
	/* So many messages have left it, which the consumer was given. It may be freed by
	 * the call. */
	void (*on_settled)(struct consumer *c, uint32_t count);
	/* The client has a message by another subscription, and had it before the oldest
	 * of this one. */
	bool (*has_older)(const struct lease *l);
	/* The lease of a message has ended; next it is released. */
	void (*on_lapse)(struct holder *h, const struct lapse *what);
	struct run_tag_tree runs; /* messages of topics */
	uint64_t *last_tag;       /* the last one given out, of whatever it holds */
};

/* A message that the holder loses because a lease has ended. */
struct lapse {
	uint64_t tag, count; /* of a topic there may be several, one after the other */
	const struct queue *queue;       /* or a topic */
	uint64_t id;                     /* of a queue */
	const struct group_claim *claim; /* of a topic */
	uint64_t offset;
};

struct lease {
	struct broker *broker;
	struct holder *holder;
	struct consumer *consumer; /* NULL: a GET's */
	struct entry_list entries; /* of queues, in the order of their tags */
	uint32_t count;            /* messages that it holds */
	uint32_t oldest_ms;        /* how long the lease of the oldest is */
	uint64_t oldest;           /* the tag of the oldest; 0: it holds none */
	int64_t end_ms;            /* when the lease of the oldest ends */
	int64_t end_unix_ms;       /* the same by the wall clock, to be shown */
	struct heap_node timer;    /* in broker.leases: not later than what is next */
	uint32_t notify_ms;        /* the consumer is told so long before; 0: it is not */
	uint32_t returns;          /* given back in a row, without a settlement */
	int64_t rest_until_ms;     /* it is given nothing until then; 0: it may be */
	bool is_told;              /* of the lease of the oldest */
	bool has_settled;          /* a message behind, since the oldest is the oldest */
	bool is_stalled;           /* it gets one message at a time */
	bool is_charged;           /* with a failure, as its channel breaks */
	bool is_open;              /* the GET gathers yet */
};

struct broker;

void lease_init(struct lease *l, struct broker *b, struct holder *h, struct consumer *c);
void lease_deinit(struct lease *l);
/* One of a GET. It goes when lease_close was called and nothing is left of it. */
struct lease *lease_create(struct broker *b, struct holder *h);
void lease_close(struct lease *l);

/* The message, which has its tag and its lease_ms, is held. */
void lease_add(struct lease *l, struct entry *e);
/* The entry is held no longer. The lease may be freed by the call. */
void lease_remove(struct entry *e);
/* Likewise of a topic: the next message, or `count` of them, which have left the holder's
 * runs already. */
void lease_add_record(struct lease *l, uint64_t tag, uint32_t lease_ms);
void lease_remove_records(struct lease *l, uint64_t count);

/* The first run of the lease that has the tag, or tags behind it; NULL: none. */
struct run *lease_run_from(const struct lease *l, uint64_t tag);

/* The client has asked for more time for what it holds by that tag. */
void lease_touch(struct lease *l, uint64_t tag, uint32_t ms);
/* The oldest has not had its turn: its lease begins later. */
void lease_put_off(struct lease *l);
/* By the clock that nobody sets: when the oldest, which there is, was given out. */
int64_t lease_given_ms(const struct lease *l);
/* The holder has said, in a transaction, what is to become of a message. */
void lease_work(struct lease *l);
/* The holder settles the message of that tag, which is released next. */
static inline void lease_progress(struct lease *l, uint64_t tag)
{
	l->is_stalled = false;
	l->returns = 0;
	l->has_settled |= tag != l->oldest;
}
/* The consumer gives a message back that it has not begun. Who does nothing else is
 * served ever more slowly: that hurts nobody but itself. */
void lease_give_back(struct lease *l);

/* The wall clock was set: leases end at another time of it. */
void lease_step_clock(struct broker *b, int64_t step_ms);
/* When the lease of the message ends, wall clock; 0: it has not begun. */
int64_t lease_until_unix_ms(const struct entry *e);
