/* definition.h: durable definitions on their way to Redis.
 *
 * An exchange, a queue or a binding exists in the broker at once, and in Redis
 * a moment later. Whoever declares it, first or again, is answered when Redis
 * has it; when Redis will not take it, it goes away again. */
#ifndef TIDE_BROKER_DEFINITION_H
#define TIDE_BROKER_DEFINITION_H

#include <stdbool.h>

struct binding;
struct exchange;
struct queue;
struct waiter;

/* Part of the thing that is defined. */
struct definition {
	unsigned pending; /* requests that Redis has not answered */
	bool is_stored;   /* Redis has it */
};

/* Adds to `waiter` what it has to wait for: nothing for a thing that is not
 * durable, or that Redis has. */
void definition_send_queue(struct queue *q, struct waiter *waiter);
void definition_send_exchange(struct exchange *x, struct waiter *waiter);
void definition_send_binding(struct binding *b, struct waiter *waiter);

#endif
