/* unusable.h: queues, topics and exchanges that are defined in Redis, and for which the
 * active rules cannot decide.
 *
 * What is defined exists, whatever the rules are: its name is taken, its bindings stand,
 * and a message that would go there is refused, not lost. At the start everything is
 * made without scripts (queue_restore, exchange_restore). It can be used once it is
 * attached to them. What could not be attached is tried again with every generation. A
 * binding that its routing script refuses makes the exchange unusable: nobody knows which
 * messages the binding is for. */
#pragma once

#include "exchange.h"
#include "queue.h"

struct unusable_count {
	unsigned exchanges, queues, topics, bindings;
	struct error first; /* names the first; code 0 when there is none */
};

/* Replace the reason.
 * @param why  follows "queue 'q' ": "uses priority/p.lua, which is missing" */
void unusable_set(struct definition *d, const char *why);
/* The definition can never be used: what Redis has is not what this broker writes. */
void unusable_set_unreadable(struct definition *d, const char *what,
			     const struct error *cause);
/* The definition can be used, or goes away. Harmless for one that can be used. */
void unusable_clear(struct definition *d);
/* The error of a request that needs one that is unusable; else TIDE_OK. */
int unusable_check(const struct definition *d, struct error *err);

/* Why a script cannot be used, as unusable_set wants it.
 * @param cause  what the engine said, with its code */
int unusable_explain(enum script_kind kind, const char *script, const struct error *cause,
		     struct error *err);

/* At the start: attach to the active rules what is not attached yet. Returns the number
 * of unusable queues and exchanges. */
unsigned unusable_attach_all(struct broker *b);
/* There is a new generation: try the unusable ones again. A queue that can be used is
 * recovered with its messages before anybody gets at it. */
void unusable_retry_all(struct broker *b);
/* The scripts of the definition have changed: try it again. Harmless for one that can be
 * used, and while Redis is being told of other options of it.
 *
 * @param waiter  is told when it can be used, or not; or NULL */
void unusable_retry(struct definition *d, struct waiter *waiter);

/* Redis lacks confirmed writes of a lane for ever: read the queues with a shard there
 * anew. What consumers hold of them is lost to them. */
void unusable_read_anew(struct broker *b, unsigned lane);

void unusable_count(const struct broker *b, struct unusable_count *out);
/* One line for each, at the start. */
void unusable_log(const struct broker *b);
/* A member `unusable` of RULES status: kind, vhost, name and reason of each. */
void unusable_write(const struct broker *b, struct json *out);
/* The member `unusable` of a binding in a list, if either of its ends is. */
void unusable_write_binding(const struct binding *binding, struct json *out);
