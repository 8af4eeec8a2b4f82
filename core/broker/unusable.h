/* unusable.h: queues and exchanges that are defined in Redis, and for which the active
 * rules cannot decide.
 *
 * What is defined exists, whatever the rules are: its name is taken, its bindings stand,
 * and a message that would go there is refused, not lost. At the start everything is
 * made without scripts (queue_restore, exchange_restore). It can be used once it is
 * attached to them. What could not be attached is tried again with every generation. A
 * binding that its routing script refuses makes the exchange unusable: nobody knows which
 * messages the binding is for. */
#ifndef TIDE_BROKER_UNUSABLE_H
#define TIDE_BROKER_UNUSABLE_H

#include "exchange.h"
#include "queue.h"

struct unusable_count {
	unsigned exchanges, queues, bindings;
	struct error first; /* names the first; code 0 when there is none */
};

/* Say it of a queue or exchange, in the place of what was said before.
 * @param why  goes on after "queue 'q' ": "uses priority/p.lua, which is gone" */
void unusable_set_queue(struct queue *q, const char *why);
void unusable_set_exchange(struct exchange *x, const char *why);
/* They can be used, or go away. Harmless for one that can be. */
void unusable_clear_queue(struct queue *q);
void unusable_clear_exchange(struct exchange *x);

/* The error of a request that needs one that is unusable. */
int unusable_queue_error(const struct queue *q, struct error *err);
int unusable_exchange_error(const struct exchange *x, struct error *err);

/* Why a script cannot be used, as unusable_set_queue wants it.
 * @param cause  what the engine said, with its code */
int unusable_explain(enum script_kind kind, const char *script, const struct error *cause,
		     struct error *err);

/* Attach what is not attached yet to the active rules; at the start. Gives how many
 * queues and exchanges are unusable. */
unsigned unusable_attach_all(struct broker *b);
/* Take everything from its scripts, so that another engine may be tried. */
void unusable_detach_all(struct broker *b);
/* The unusable ones once more: there is a new generation. Queues that can be used are
 * recovered with their messages before anybody gets at them. */
void unusable_retry(struct broker *b);
/* Once more, since its bindings have changed. */
void unusable_retry_exchange(struct exchange *x);

void unusable_count(const struct broker *b, struct unusable_count *out);
/* One line for each, at the start. */
void unusable_log(const struct broker *b);
/* A member `unusable` of RULES status: kind, vhost, name and reason of each. */
void unusable_write(const struct broker *b, struct json *out);
/* The member `unusable` of a binding in a list, if either of its ends is. */
void unusable_write_binding(const struct binding *binding, struct json *out);

#endif
