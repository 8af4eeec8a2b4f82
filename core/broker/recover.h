/* recover.h: the definitions and shards that an earlier process left in Redis. */
#ifndef TIDE_BROKER_RECOVER_H
#define TIDE_BROKER_RECOVER_H

#include "broker.h"

typedef void recover_fn(struct broker *b, int status, const char *text);

/* Read every definition: exchanges, queues and bindings are there then, attached to no
 * script (unusable.h). */
void recover_definitions(struct broker *b, recover_fn *on_done);
/* Read the counts of every shard of the queues that can be used, and what its ledger
 * says was held. What that costs depends on the number of queues, not of messages. */
void recover_shards(struct broker *b, recover_fn *on_done);
/* The same of one queue; the waiter is told. */
void recover_queue(struct queue *q, struct waiter *waiter);

#endif
