/* queue_facts.h: tide.queue: what scripts may know of a queue, or a topic, of the vhost
 * that the call is for.
 *
 * A script gets a view, whose fields are read when the script reads them: those of now,
 * in a dry run and for candidate rules too. */
#pragma once

#include <lua.h>

#include "base/slice.h"

enum queue_fact {
	QUEUE_FACT_READY,
	QUEUE_FACT_UNACKED,
	QUEUE_FACT_DELAYED,
	QUEUE_FACT_BURIED,
	QUEUE_FACT_CONSUMERS,
	QUEUE_FACT_MESSAGES, /* the sum of the four states; of a topic, the messages that
				it keeps */
	QUEUE_FACT_BYTES,
	QUEUE_FACT_OLDEST_MS, /* how long the oldest ready one has been so; 0: none is */
	QUEUE_FACT_IN_RATE,   /* messages a second, over ten seconds */
	QUEUE_FACT_OUT_RATE,
	QUEUE_FACT_COUNT,
};

/* How facts are found. */
struct queue_facts {
	void *ctx;
	/* NULL: there is no such queue, or what it has is not known. Good for the call
	 * under way. */
	const void *(*find)(void *ctx, struct slice vhost, struct slice name);
	/* Negative: the queue has no such fact. */
	double (*read)(const void *queue, enum queue_fact fact);
};

/* The names of the fields, by fact. */
extern const char *const queue_facts_names[];

/* Make the view known to a state. May raise. Without `find` in `source` there are no
 * queues. */
void queue_facts_open(lua_State *L, const struct queue_facts *source);
/* Push the function queue(name), after queue_facts_open. */
void queue_facts_push(lua_State *L, const struct queue_facts *source);
