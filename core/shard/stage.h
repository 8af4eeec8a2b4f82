/* stage.h: one ordered set of a shard, of which only the front is in memory.
 *
 * What is in memory sorts before the edge. What is in Redis alone, or on its way there,
 * sorts at or beyond the edge: such an entry is kept until Redis has it. One ordered read
 * refills a window that runs low. */
#pragma once

#include "window.h"

struct stage {
	struct shard *shard;
	enum store_set set;
	struct window window;

	uint64_t beyond;   /* how many sort at or behind the edge */
	struct place edge; /* good while something is beyond or a refill is under way */
	/* Entries beyond the edge that a read may miss: those not yet encoded, and all
	 * during a refill. */
	struct entry_list outside;
	uint64_t outside_unwritten;

	/* Members of Redis's set before the edge, once what was sent has arrived: where
	 * the next read starts. */
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
/* Take out one that is in the window, parked or outside. */
void stage_remove(struct stage *st, struct entry *e);
/* Any that is in the window or outside; NULL when none is. */
static inline struct entry *stage_any(const struct stage *st)
{
	struct entry *first = window_first(&st->window);

	return first ? first : TAILQ_FIRST(&st->outside);
}
/* Take one out of the window that goes on waiting, elsewhere in memory. */
void stage_set_aside(struct stage *st, struct entry *e);
/* Ask Redis for more when the window is low and there is more. */
void stage_refill(struct stage *st);
/* A batch that names an outside entry was built. */
void stage_entry_encoded(struct stage *st, struct entry *e);
/* The batch of the entry was refused, and the entry is dirty again. */
void stage_entry_refused(struct stage *st, struct entry *e);
/* The entry of a row that was read from a set. It is in no stage yet. NULL for a row
 * without a readable body: what is to become of that is settled by the call. */
struct entry *stage_row_entry(struct shard *sh, const struct store_row *row,
			      enum store_set set);
/* Stop counting what is in Redis alone, and return its count. What stays in `outside` is
 * not yet written. */
uint64_t stage_forget_beyond(struct stage *st);
/* Count them again: Redis still has them. */
void stage_restore_beyond(struct stage *st, uint64_t count);
/* Give back to Redis what is over the limits. */
void stage_relieve(struct stage *st);
/* Redis says how many there are; nothing is in memory yet. */
void stage_recover(struct stage *st, uint64_t count);
