/* walk.h: all queues, topics or exchanges of the broker one after the other, over turns
 * of the loop, as often as one likes.
 *
 * A walk is a place in the lists that the broker has anyway: it takes no memory, however
 * many there are. What goes takes the walk's place along to the next one. What is made
 * after walk_begin is not met: so no name is met twice, even if it is deleted and
 * declared again. What stays is met once in each pass. */
#pragma once

#include "broker.h"

struct definition;
struct exchange;
struct queue;
struct topic;

struct walk {
	TAILQ_ENTRY(walk) link;
	struct broker *broker;
	uint64_t newest; /* serial */
	struct queue *queue;
	struct topic *topic;
	struct exchange *exchange;
};

void walk_begin(struct walk *w, struct broker *b);
void walk_end(struct walk *w);
/* The next one; NULL: that was the last. Then the same pass may begin again. Queues
 * without topics; what cannot be used (unusable.h) is left out. */
struct queue *walk_queue(struct walk *w);
struct queue *walk_topic(struct walk *w);
struct exchange *walk_exchange(struct walk *w);
/* Exchanges, then queues, then topics. */
struct definition *walk_definition(struct walk *w);
/* Begin all passes anew. */
void walk_rewind(struct walk *w);

/* For queue.c, topic.c and exchange.c: it goes. */
void walk_leave_queue(struct queue *q);
void walk_leave_topic(struct topic *t);
void walk_leave_exchange(struct exchange *x);
