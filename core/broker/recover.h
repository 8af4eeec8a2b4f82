/* recover.h: the definitions and shards that an earlier process left in Redis. */
#ifndef TIDE_BROKER_RECOVER_H
#define TIDE_BROKER_RECOVER_H

#include "broker.h"

/* Read every definition, then the counts of every shard and what its ledger
 * says was held; on_done tells how it went. What that costs depends on the
 * number of queues, not of messages. A definition that cannot be read or whose
 * script is missing is logged and left in Redis as it is. */
void recover_start(struct broker *b,
		   void (*on_done)(struct broker *b, int status, const char *text));

#endif
