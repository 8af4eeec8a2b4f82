#include "window.h"

static int compare_lanes(const struct lane *a, const struct lane *b)
{
	return (a->score > b->score) - (a->score < b->score);
}

RB_GENERATE_INTERNAL(lane_tree, lane, node, compare_lanes, static __attribute__((unused)))

void window_init(struct window *w, struct pool *lanes)
{
	*w = (struct window){ .pool = lanes };
	RB_INIT(&w->lanes);
}

void window_deinit(struct window *w)
{
	w->pool = NULL;
}

static struct lane *lane_find(struct window *w, double score)
{
	struct lane wanted = { .score = score };
	struct lane *lane;

	if (w->last && w->last->score == score)
		return w->last;
	lane = RB_FIND(lane_tree, &w->lanes, &wanted);
	if (lane)
		return lane;
	lane = pool_take(w->pool);
	lane->score = score;
	lane->recent = NULL;
	TAILQ_INIT(&lane->entries);
	RB_INSERT(lane_tree, &w->lanes, lane);
	if (!w->last || score > w->last->score)
		w->last = lane;
	return lane;
}

static uint64_t distance(const struct entry *a, const struct entry *b)
{
	return a->id < b->id ? b->id - a->id : a->id - b->id;
}

/* New messages belong at the end, returned ones near the front, and many that
 * return together one behind the other: the walk starts at the nearest of these
 * three places. */
static void lane_insert(struct lane *lane, struct entry *e)
{
	struct entry *last = TAILQ_LAST(&lane->entries, entry_list);
	struct entry *at = TAILQ_FIRST(&lane->entries);

	if (!last || last->id < e->id) {
		TAILQ_INSERT_TAIL(&lane->entries, e, link);
		return;
	}
	if (distance(last, e) < distance(at, e))
		at = last;
	if (lane->recent && distance(lane->recent, e) < distance(at, e))
		at = lane->recent;
	lane->recent = e;
	if (at->id < e->id) {
		while (TAILQ_NEXT(at, link)->id < e->id)
			at = TAILQ_NEXT(at, link);
		TAILQ_INSERT_AFTER(&lane->entries, at, e, link);
		return;
	}
	while (TAILQ_PREV(at, entry_list, link) &&
	       TAILQ_PREV(at, entry_list, link)->id > e->id)
		at = TAILQ_PREV(at, entry_list, link);
	TAILQ_INSERT_BEFORE(at, e, link);
}

void window_insert(struct window *w, struct entry *e, double score)
{
	e->lane = lane_find(w, score);
	lane_insert(e->lane, e);
	w->count++;
	w->bytes += e->msg->bytes;
}

void window_remove(struct window *w, struct entry *e)
{
	struct lane *lane = e->lane;

	if (lane->recent == e)
		lane->recent = TAILQ_NEXT(e, link);
	TAILQ_REMOVE(&lane->entries, e, link);
	e->lane = NULL;
	w->count--;
	w->bytes -= e->msg->bytes;
	if (!TAILQ_EMPTY(&lane->entries))
		return;
	if (lane == w->last)
		w->last = RB_PREV(lane_tree, &w->lanes, lane);
	RB_REMOVE(lane_tree, &w->lanes, lane);
	pool_give(w->pool, lane);
}

struct entry *window_first(const struct window *w)
{
	struct lane *lane = RB_MIN(lane_tree, (struct lane_tree *)&w->lanes);

	return lane ? TAILQ_FIRST(&lane->entries) : NULL;
}

struct entry *window_last(const struct window *w)
{
	return w->last ? TAILQ_LAST(&w->last->entries, entry_list) : NULL;
}

struct entry *window_next(const struct window *w, const struct entry *e)
{
	struct entry *next = TAILQ_NEXT(e, link);
	struct lane *lane;

	if (next)
		return next;
	lane = RB_NEXT(lane_tree, (struct lane_tree *)&w->lanes, e->lane);
	return lane ? TAILQ_FIRST(&lane->entries) : NULL;
}

struct place window_place(const struct entry *e)
{
	return (struct place){ e->lane->score, e->id };
}
