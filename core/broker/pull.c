#include "pull.h"

#include "group_seek.h"
#include "queue.h"

/* An offset that a reader names is exact, also if the partition ends before it. */
static void begin(struct group_claim *gc, const struct position *from)
{
	if (gc->group->name || from->kind != POSITION_OFFSET) {
		group_seek(gc, from, NULL);
		return;
	}
	claim_reset(&gc->claim, from->offset);
	group_wake(gc);
}

static void open_claim(struct topic_group *g, unsigned index, const struct position *from)
{
	bool is_new =
		!group_claim(g, index) && group_committed(g, index) == GROUP_UNKNOWN;
	struct group_claim *gc = group_open_claim(g, index);

	if (is_new)
		begin(gc, from);
	else if (!gc->owner)
		group_wake(gc);
}

void pull_join(struct getter *pull, struct topic_group *g, const struct position *from)
{
	unsigned width = group_width(g);

	pull->group = g;
	TAILQ_INSERT_TAIL(&g->pulls, pull, line_link);
	if (g->pull_count++ > 0)
		return;
	for (unsigned i = 0; i < width; i++) {
		unsigned index = (g->next_pulled + i) % width;

		if (g->only < 0 || g->only == index)
			open_claim(g, index, from);
	}
}

void pull_leave(struct getter *pull)
{
	struct topic_group *g = pull->group;
	struct getter *first;

	if (!g)
		return;
	pull->group = NULL;
	pull->source = NULL;
	TAILQ_REMOVE(&g->pulls, pull, line_link);
	g->pull_count--;
	g->late_pulls -= pull->is_late;
	first = TAILQ_FIRST(&g->pulls);
	if (!first)
		group_left(g);
	else if (!TAILQ_EMPTY(&g->ready) || g->late_pulls > 0)
		consumer_wake(first->consumers);
}

void pull_lose(const struct group_claim *gc)
{
	struct getter *first = TAILQ_FIRST(&gc->group->pulls);

	if (first && first->source == gc)
		getter_await_no_more(first);
}

/* Something that a GET may take is being looked for. */
static bool is_read(const struct topic_group *g)
{
	for (unsigned i = 0; i < group_width(g); i++) {
		const struct group_claim *gc = group_claim(g, i);

		if (gc && group_is_free(gc) && (gc->search || gc->is_reading))
			return true;
	}
	return false;
}

bool pull_stay(struct getter *pull)
{
	struct topic_group *g = pull->group;

	if (pull->is_hasty || !is_read(g))
		return false;
	g->late_pulls += !pull->is_late;
	pull->is_late = true;
	getter_await(pull);
	return true;
}

void pull_end_late(struct topic_group *g)
{
	struct getter *pull, *next;

	if (g->late_pulls == 0 || is_read(g))
		return;
	for (pull = TAILQ_FIRST(&g->pulls); pull; pull = next) {
		next = TAILQ_NEXT(pull, line_link);
		if (pull->is_late)
			pull->on_answer(pull);
	}
}
