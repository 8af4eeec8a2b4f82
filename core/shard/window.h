/* window.h: entries ordered by (score, id), for the part of a set in memory.
 *
 * A tree of lanes, one a score, each a list in the order of ids. Appending and taking are
 * O(1) when all scores are equal (one lane), O(log n) when all differ. Inserting between
 * two others is amortised O(log n): after a long walk the lane keeps a finger. Entries
 * are borrowed: the window frees none. */
#pragma once

#include <bsd/sys/tree.h>

#include "base/mem.h"
#include "entry.h"

/* A place in a long lane from which the walk to another is short. */
struct finger {
	RB_ENTRY(finger) node;
	struct entry *entry;
};

RB_HEAD(finger_tree, finger);

struct lane {
	RB_ENTRY(lane) node;
	double score;
	struct entry_list entries;
	/* The last one that went between two others, or where it was. */
	struct entry *recent;
	struct finger_tree fingers; /* by the entries' ids */
};

RB_HEAD(lane_tree, lane);

struct window {
	struct lane_tree lanes;
	struct lane *last; /* the lane with the highest score */
	struct pool *pool; /* of lanes; shared by all windows of a broker */
	size_t count;
	size_t bytes; /* of the messages in it */
};

/* A place in the order: by score, then by id. */
struct place {
	double score;
	uint64_t id;
};

static inline struct place place_of_row(const struct store_row *row)
{
	return (struct place){ row->score, row->id };
}

static inline bool place_is_before(struct place a, struct place b)
{
	return a.score < b.score || (a.score == b.score && a.id < b.id);
}

void window_init(struct window *w, struct pool *lanes);
void window_insert(struct window *w, struct entry *e, double score);
void window_remove(struct window *w, struct entry *e);
/* NULL when empty. */
struct entry *window_first(const struct window *w);
struct entry *window_last(const struct window *w);
/* The entry behind `e` in the order, or NULL. */
struct entry *window_next(const struct window *w, const struct entry *e);
/* The first entry at or behind a place, NULL when there is none. False: the walk is long,
 * and the next call goes on with it. */
TIDE_MUST_USE bool window_seek(struct window *w, struct place from, struct entry **out);
/* The first entry with the score behind that of `e`, or NULL. */
struct entry *window_next_score(const struct window *w, const struct entry *e);
static inline struct place window_place(const struct entry *e)
{
	return (struct place){ e->lane->score, e->id };
}
