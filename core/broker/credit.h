/* credit.h: a limit that several consumers share: those of a channel with a prefetch.
 *
 * While it is used up, consumers whose queue has something for them, and who lack
 * nothing else, want it. When a part of it comes back, they get a chance one after the
 * other, in the order of their rank, then of their turn: each is able (consumer.h) until
 * its queue has dealt. Who finds no message stays able, and wants nothing any more. So
 * each chance that is in vain was paid for by a message that somebody else took. */
#pragma once

#include <sys/queue.h>

#include "base/heap.h"

struct broker;
struct consumer;

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

TAILQ_HEAD(credit_list, credit);

void credit_init(struct credit *cr, struct broker *b, uint32_t limit);
/* Call when the last consumer has gone, and the credit is whole again. */
void credit_deinit(struct credit *cr);
static inline bool credit_is_full(const struct credit *cr)
{
	return cr->used >= cr->limit;
}
/* The consumer, which has a credit, lacks nothing else. */
void credit_want(struct consumer *c);
/* The consumer lacks something else than credit, or goes. */
void credit_forget(struct consumer *c);
/* So many messages of one of its consumers are no longer held. */
void credit_return(struct credit *cr, uint32_t count);
/* Give chances, before queues deal and after. */
void credit_turn(struct broker *b);
