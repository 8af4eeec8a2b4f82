/* getter.h: a GET: a consumer in each of its queues, which are named in order.
 *
 * It takes what is there from the first queue on, and is answered when it has taken
 * something and nothing more is there for it. While a queue is being read from Redis, the
 * GET takes nothing from those named behind it, and is not answered unless it has enough;
 * for GETTER_READ_MS at most, since Redis may be away. When its time is over it ends, but
 * for such a read.
 *
 * Who makes a getter provides the consumers, and destroys both after on_answer. */
#pragma once

#include "base/heap.h"
#include "consumer.h"

#define GETTER_READ_MS 5000
/* A GET that has so many bytes waits for no more; of a topic, it takes no more. */
#define GETTER_BYTES ((size_t)1 << 20)

struct broker;
struct msg_match;
struct group_claim;
struct topic_group;
struct queue;

struct getter {
	struct broker *broker;
	/* The GET ends with what it was given. It must be destroyed. */
	void (*on_answer)(struct getter *g);
	uint32_t max;                  /* how many messages it wants */
	uint32_t count;                /* that it was given */
	size_t bytes;                  /* of these, payloads */
	struct lease *lease;           /* of what it was given; NULL: nothing yet */
	const struct msg_match *match; /* it takes only what matches; NULL: any */
	struct consumer *consumers;    /* one for each of its queues, in their order */
	unsigned consumer_count;

	struct heap_node wait; /* in struct broker */
	int64_t until_ms;      /* by the broker's mono_ms, like the next one */
	int64_t read_until_ms; /* 0: it waits for no read */
	bool is_over;          /* its time is; it waits for a read at most */
	bool is_hasty;         /* it has waited for a read for long enough */

	/* Of a topic, for group.h. It has one consumer then. */
	struct topic_group *group; /* NULL: it takes from queues */
	TAILQ_ENTRY(getter) line_link;
	struct group_claim *source; /* what it has is of this one, which is being read */
	bool is_late;               /* its time is over, and it waits for a read */
};

TAILQ_HEAD(getter_list, getter);

/* Enter it into the lines of its queues: the consumers' `queue` says which. The rest of
 * them and of the getter is filled in, up to consumer_count.
 * @param until_ms  by the broker's mono_ms */
void getter_add(struct getter *g, int64_t until_ms);
/* Take it out of all of them. Harmless when it is in none. */
void getter_remove(struct getter *g);
/* No queue that is named before this consumer's is being read. If one is, the consumer is
 * updated when that has ended. */
bool getter_can_take(struct consumer *c);
/* The getter waits for a read no longer: it is about to be answered, if it has
 * something. */
void getter_await_no_more(struct getter *g);
/* The getter waits for a read from now on, for GETTER_READ_MS at most since the first
 * time. */
void getter_await(struct getter *g);
/* Does the getter wait? It has not enough, one of its queues is being read, and it
 * may wait for that. */
bool getter_awaits_read(struct getter *g);
/* A queue named before this consumer's waits to be dealt out. */
bool getter_has_active_before(const struct consumer *c);
/* End the time of the getter now. */
void getter_hurry(struct getter *g);
/* The time that it has set is there. Whether its time is over; otherwise it goes on. */
bool getter_wake(struct getter *g);
/* The queue is no longer being read. Gives one of the GETs that have waited for that
 * and must be answered: it has something, or its time is over. Or NULL. */
struct getter *getter_read_ended(struct queue *q);
