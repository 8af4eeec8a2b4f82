/* refusal.h: what scripts of deliver/ have refused a consumer.
 *
 * Of each shard it is known up to which place: of what was ready before it the consumer
 * gets nothing. What becomes ready there later is known by its place, if it is not too
 * much. So nobody is asked about a message again and again.
 *
 * After REFUSAL_MS, and with new rules, all of a consumer is forgotten, and asked again:
 * a script may say otherwise then. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define REFUSAL_MS 5000
/* A consumer looks at so many messages in that time. */
#define REFUSAL_LOOKS 10000

struct consumer;
struct entry;
struct queue;
struct refusal;

TAILQ_HEAD(refusal_list, refusal);

/* The consumer may not have the message. */
void refusal_add(struct consumer *c, const struct entry *e);
/* The next message for a consumer that was refused something: ready, in memory, and what
 * its GET takes. NULL: there is none; or the search goes on (`*is_unfinished`). */
struct entry *refusal_next(struct consumer *c, bool *is_unfinished);
/* Forget all refusals for the consumer. Harmless when there are none. */
void refusal_forget(struct consumer *c);
/* Forget what is over, when the queue is dealt out. Consumers who have looked in vain do
 * so again. */
void refusal_turn(struct queue *q);
/* The message becomes ready. */
void refusal_entering(struct queue *q, const struct entry *e);
