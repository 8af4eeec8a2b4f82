/* dedupe_shard.h: the publish ids of a shard that are not written yet, for the journal.
 *
 * What they are and when they are confirmed: dedupe.h. */
#ifndef TIDE_SHARD_DEDUPE_SHARD_H
#define TIDE_SHARD_DEDUPE_SHARD_H

#include "shard.h"

/* The shard has ids to write that belong to no message any more. */
bool dedupe_is_dirty(const struct dedupe_shard *ds);
/* The entry, which has ENTRY_DEDUPE, is being written: so is its id. */
void dedupe_encode(struct entry *e, struct batch *b);
/* Write those that are left alone, `*budget` at most. */
void dedupe_flush(struct dedupe_shard *ds, struct batch *b, unsigned *budget);
/* The shard's batch was answered; its entries have been told. */
void dedupe_landed(struct dedupe_shard *ds, const struct batch_result *result);
/* Accepts NULL. Nothing is under way. */
void dedupe_shard_destroy(struct dedupe_shard *ds);

#endif
