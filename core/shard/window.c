#include "window.h"

#include "base/mem.h"

#define FINGER_STEPS 64 /* a longer walk leaves a finger */

static int compare_lanes(const struct lane *a, const struct lane *b)
{
	return (a->score > b->score) - (a->score < b->score);
}

RB_GENERATE_INTERNAL(lane_tree, lane, node, compare_lanes, static __attribute__((unused)))

static int compare_fingers(const struct finger *a, const struct finger *b)
{
	return (a->entry->id > b->entry->id) - (a->entry->id < b->entry->id);
}

RB_GENERATE_INTERNAL(finger_tree, finger, node, compare_fingers,
		     static __attribute__((unused)))

void window_init(struct window *w, struct pool *lanes)
{
	*w = (struct window){ .pool = lanes };
	RB_INIT(&w->lanes);
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
	RB_INIT(&lane->fingers);
	TAILQ_INIT(&lane->entries);
	RB_INSERT(lane_tree, &w->lanes, lane);
	if (!w->last || score > w->last->score)
		w->last = lane;
	return lane;
}

static struct finger *finger_at(struct lane *lane, struct entry *e)
{
	struct finger wanted = { .entry = e };

	return RB_FIND(finger_tree, &lane->fingers, &wanted);
}

static void finger_add(struct lane *lane, struct entry *e)
{
	struct finger *f = mem_alloc(sizeof(*f));

	f->entry = e;
	e->flags |= LIES_AT_FINGER;
	RB_INSERT(finger_tree, &lane->fingers, f);
}

static void finger_put(struct lane *lane, struct entry *e)
{
	if (!(e->flags & LIES_AT_FINGER))
		finger_add(lane, e);
}

/* The entry leaves: its finger moves on to the next, and goes where there is one
 * already. So it never becomes further from one finger to the next by it. */
static void finger_leave(struct lane *lane, struct entry *e)
{
	struct finger *f = finger_at(lane, e);
	struct entry *next = TAILQ_NEXT(e, link);

	e->flags &= (uint16_t)~LIES_AT_FINGER;
	if (next && !(next->flags & LIES_AT_FINGER)) {
		f->entry = next;
		next->flags |= LIES_AT_FINGER;
		return;
	}
	RB_REMOVE(finger_tree, &lane->fingers, f);
	mem_free(f);
}

/* The known entries on both sides of an id that is between first and last: the first of
 * them is below it, the second one at it or above. */
static __attribute__((noinline)) void
look_around(struct lane *lane, uint64_t id, struct entry **before, struct entry **behind)
{
	struct entry place = { .id = id };
	struct finger wanted = { .entry = &place };
	struct finger *f = RB_NFIND(finger_tree, &lane->fingers, &wanted);
	struct entry *recent = lane->recent;

	*before = TAILQ_FIRST(&lane->entries);
	*behind = f ? f->entry : TAILQ_LAST(&lane->entries, entry_list);
	f = f ? RB_PREV(finger_tree, &lane->fingers, f)
	      : RB_MAX(finger_tree, &lane->fingers);
	if (f)
		*before = f->entry;
	if (recent && recent->id < id && recent->id > (*before)->id)
		*before = recent;
	else if (recent && recent->id > id && recent->id < (*behind)->id)
		*behind = recent;
}

/* Most new messages belong at the end, returned ones at the front or one after the other.
 * Else the walk goes from both sides at once, and leaves a finger when it was long. */
static void lane_insert(struct lane *lane, struct entry *e)
{
	struct entry *last = TAILQ_LAST(&lane->entries, entry_list);
	struct entry *before, *behind;
	unsigned steps = 0;

	if (!last || last->id <= e->id) {
		TAILQ_INSERT_TAIL(&lane->entries, e, link);
		return;
	}
	if (TAILQ_FIRST(&lane->entries)->id > e->id) {
		TAILQ_INSERT_HEAD(&lane->entries, e, link);
		lane->recent = e;
		return;
	}
	look_around(lane, e->id, &before, &behind);
	for (;; steps++) {
		struct entry *next = TAILQ_NEXT(before, link);

		if (next->id > e->id)
			break;
		before = next;
		behind = TAILQ_PREV(behind, entry_list, link);
		if (behind->id <= e->id) {
			before = behind;
			break;
		}
	}
	TAILQ_INSERT_AFTER(&lane->entries, before, e, link);
	lane->recent = e;
	if (steps > FINGER_STEPS)
		finger_add(lane, e);
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
	if (e->flags & LIES_AT_FINGER)
		finger_leave(lane, e);
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

struct entry *window_next_score(const struct window *w, const struct entry *e)
{
	struct lane *lane = RB_NEXT(lane_tree, (struct lane_tree *)&w->lanes, e->lane);

	return lane ? TAILQ_FIRST(&lane->entries) : NULL;
}

struct entry *window_next(const struct window *w, const struct entry *e)
{
	struct entry *next = TAILQ_NEXT(e, link);

	return next ? next : window_next_score(w, e);
}

#define SEEK_STEPS 8192 /* of one call: well below a millisecond */

/* The first entry of a lane at or above an id, which is between first and last. */
static bool lane_seek(struct lane *lane, uint64_t id, struct entry **out)
{
	struct entry *before, *behind;
	unsigned steps = 0;

	look_around(lane, id, &before, &behind);
	for (;; steps++) {
		struct entry *next = TAILQ_NEXT(before, link);

		*out = next->id >= id ? next : behind;
		if (next->id >= id || TAILQ_PREV(behind, entry_list, link)->id < id)
			break;
		before = next;
		behind = TAILQ_PREV(behind, entry_list, link);
		if (steps < SEEK_STEPS)
			continue;
		/* The next call goes on from here. */
		finger_put(lane, before);
		finger_put(lane, behind);
		return false;
	}
	if (steps > FINGER_STEPS)
		finger_put(lane, *out);
	return true;
}

bool window_seek(struct window *w, struct place from, struct entry **out)
{
	struct lane wanted = { .score = from.score };
	struct lane *lane = RB_NFIND(lane_tree, &w->lanes, &wanted);

	if (lane && lane->score == from.score &&
	    TAILQ_LAST(&lane->entries, entry_list)->id < from.id)
		lane = RB_NEXT(lane_tree, &w->lanes, lane);
	*out = lane ? TAILQ_FIRST(&lane->entries) : NULL;
	if (!lane || lane->score > from.score || (*out)->id >= from.id)
		return true;
	return lane_seek(lane, from.id, out);
}
