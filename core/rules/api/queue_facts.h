/* queue_facts.h: tide.queue: what scripts may know of a queue, or a topic, of the vhost
 * that the call is for.
 *
 * A script gets a view, whose fields are read when the script reads them: those of now,
 * in a dry run and for candidate rules too. */
#pragma once

#include <lua.h>

#include "base/slice.h"

/* How facts are found. */
struct queue_facts {
	void *ctx;
	/* NULL: there is no such queue, or what it has is not known. Good for the call
	 * under way. */
	const void *(*find)(void *ctx, struct slice vhost, struct slice name);
	/* The fact of that row of QUEUE_FIGURES. NAN: the queue has no such fact. */
	double (*read)(const void *queue, unsigned row);
};

/* The names of the fields, by row of QUEUE_FIGURES; NULL: scripts do not see it. */
extern const char *const queue_facts_names[];
extern const unsigned queue_facts_count;

/* Make the view known to a state. May raise. Without `find` in `source` there are no
 * queues. */
void queue_facts_open(lua_State *L, const struct queue_facts *source);
/* Push the function queue(name), after queue_facts_open. */
void queue_facts_push(lua_State *L, const struct queue_facts *source);
