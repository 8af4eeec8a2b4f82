/* stage.h: one ordered set of a shard, of which only the front is in memory.
 *
 * What is in memory sorts before the edge; what is beyond it (in Redis, or on
 * its way there) sorts at or behind the edge. An entry placed behind the edge
 * is kept just until Redis has it. When the window runs low it is refilled
 * with one ordered read. */
#ifndef TIDE_SHARD_STAGE_H
#define TIDE_SHARD_STAGE_H

#include "window.h"

struct stage {
	struct shard *shard;
	enum store_set set;
	struct window window;

	uint64_t beyond;   /* how many sort at or behind the edge */
	struct place edge; /* good while something is beyond or a refill is under way */
	/* Entries beyond the edge that a read which has been asked for may not see:
	 * those not yet encoded, and while a refill is under way all. */
	struct entry_list outside;
	uint64_t outside_unwritten;

	/* How many members Redis's set has before the edge, in the order of what
	 * has been sent: where the next read starts. */
	uint64_t indexed;

	bool is_refilling;
	bool is_void; /* what the read under way brings has been purged meanwhile */
	int64_t evict_unix_ms; /* not before: a held message was in the way */
	int64_t refill_start;
	size_t refill_bytes;
	bool is_locating; /* the place was not where it was thought to be */
	unsigned refill_count;
	struct place refill_edge; /* the edge when the read was asked for */
};

void stage_init(struct stage *st, struct shard *sh, enum store_set set,
		struct pool *lanes);

/* Insert by score, in memory or outside. */
void stage_insert(struct stage *st, struct entry *e, double score);
/* Take out one that is in the window or outside. */
void stage_remove(struct stage *st, struct entry *e);
/* Any that is in the window or outside; NULL when none is. */
static inline struct entry *stage_any(const struct stage *st)
{
	struct entry *first = window_first(&st->window);

	return first ? first : TAILQ_FIRST(&st->outside);
}
/* Ask Redis for more when the window is low and there is more. */
void stage_refill(struct stage *st);
/* A batch that names an outside entry was built. */
void stage_entry_encoded(struct stage *st, struct entry *e);
/* That batch was refused, and the entry is dirty again. */
void stage_entry_refused(struct stage *st, struct entry *e);
/* The entry of a row that was read from a set. It is in no stage yet. NULL for a row
 * without a readable body: what is to become of that is settled by the call. */
struct entry *stage_row_entry(struct shard *sh, const struct store_row *row,
			      enum store_set set);
/* Take out what is beyond and in Redis alone; gives how many they are. What is
 * left in `outside` was not written yet. */
uint64_t stage_forget_beyond(struct stage *st);
/* Those that were forgotten are there after all. */
void stage_restore_beyond(struct stage *st, uint64_t count);
/* What could not be given back to Redis while the shard was held back. */
void stage_relieve(struct stage *st);
/* Redis says how many there are; nothing is in memory yet. */
void stage_recover(struct stage *st, uint64_t count);

#endif
