/* update.h: other options for a queue, a topic or an exchange that is in use, by a
 * DECLARE or by other policies.
 *
 * All of them change at once, or none. Redis is told first: until it has confirmed, the
 * options are the old ones. Messages, consumers and publishers stay.
 *
 * With another number of shards, or another sharding, no message moves. New ones are
 * placed by the new options; those that are there stay in their shards, which are *mixed*
 * until they have been empty once. While one is, the queue deals its messages in the
 * order that they would have in a single shard: so those of one key keep theirs, whatever
 * shards they are in. */
#pragma once

#include "base/error.h"
#include "base/waiter.h"

struct broker;
struct definition;
struct policies;
struct policy_watch;
struct terms;

/* The waiter is told when it is done; without one, Redis is not told. A queue that could
 * not be used for its options can be then, with its messages: they have been read. The
 * definition is not busy: definition_is_busy. TIDE_EMISMATCH: an option cannot change, or
 * a script refuses its own. */
TIDE_MUST_USE int update_begin(struct definition *d, struct terms *next_take,
			       struct waiter *waiter, struct error *err);
/* Ask the policies (declare/) for who looks on: nothing changes. */
void update_ask(struct definition *d, const struct policy_watch *w);

/* The policies are asked about what there is: at the start, and again when other rules
 * become active, between the turns of the loop. */
struct policies *update_policies_create(struct broker *b);
void update_policies_destroy(struct policies *p);
/* The definitions have been read from Redis; nothing is attached to the rules yet.
 * Likewise for each generation that the start tries. */
void update_policies_begin(struct broker *b);
/* There is a new generation; what cannot be used has not been tried with it yet. */
void update_policies_renew(struct broker *b);
