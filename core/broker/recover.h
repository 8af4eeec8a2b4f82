/* recover.h: the definitions and shards that an earlier process left in Redis. */
#pragma once

#include "broker.h"

/* Read every definition: exchanges, queues and bindings are there then, attached to no
 * script (unusable.h). */
void recover_definitions(struct broker *b, store_done_fn on_done, void *ctx);
/* Read the counts of every shard of the queues that can be used, and what its ledger
 * says was held. What that costs depends on the number of queues, not of messages. */
void recover_shards(struct broker *b, store_done_fn on_done, void *ctx);
