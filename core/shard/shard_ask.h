/* shard_ask.h: an ask for messages of one shard by their ids, in whatever state they are.
 *
 * First memory is looked at, as soon as the shard's index is there, then Redis. What is
 * in Redis alone is taken out of its set into memory, so that one can do with it whatever
 * can be done with any other. A crash before that is written leaves it where it was. Its
 * owner embeds this; it is the shard's until on_end. */
#pragma once

#include "shard.h"

struct shard_ask {
	TAILQ_ENTRY(shard_ask) link;
	struct shard *shard;
	uint64_t *ids;  /* those not yet found, none twice; the owner's memory */
	unsigned count; /* of them */
	/* A message in memory, or just taken. `state`: where it is, or was; of one that
	 * is being dead-lettered, ENTRY_MOVING. False: it is left as it is, or put back.
	 * Otherwise the call has moved or removed it. */
	bool (*on_entry)(struct shard_ask *ask, struct entry *e, enum entry_state state);
	/* Not NULL: nothing is taken. A message in Redis alone; the row's score is the
	 * time by which it is in that state. */
	void (*on_row)(struct shard_ask *ask, const struct store_row *row,
		       enum entry_state state);
	/* There are no more. The ids that are left were not found. */
	void (*on_end)(struct shard_ask *ask, int status, const char *text);
};

/* Begin; the rest is filled in. Any of the calls may come before this returns. */
void shard_take_ask(struct shard_ask *ask);
