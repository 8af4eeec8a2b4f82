#include "backlog.h"

#include "broker/queue.h"

#define STEPS 16 /* from one look at the clock to the next */

void backlog_init(struct backlog *l, struct broker *b)
{
	*l = (struct backlog){ .broker = b };
}

void backlog_deinit(struct backlog *l)
{
	list_walk_deinit(&l->walk);
}

static void add(struct backlog_sum *sum, const struct queue *q)
{
	for (unsigned i = 0; i < q->shard_count; i++) {
		const struct shard *sh = q->shards[i];
		uint64_t ready = shard_count(sh, ENTRY_READY);

		sum->ready += ready;
		sum->delayed += shard_count(sh, ENTRY_DELAYED);
		sum->unacked += shard_count(sh, ENTRY_UNACKED);
		sum->buried += shard_count(sh, ENTRY_BURIED);
		if (ready)
			sum->since_ms = heap_earlier(sum->since_ms, shard_age_ready(sh));
	}
}

static void begin(struct backlog *l)
{
	list_walk_deinit(&l->walk);
	list_walk_init(&l->walk, l->broker, &list_walk_vhosts, &list_walk_queues);
	l->next = (struct backlog_sum){ 0 };
	l->spent_us = 0;
	l->is_walking = true;
}

static void end(struct backlog *l)
{
	l->is_walking = false;
	l->sum = l->next;
	l->ended_ms = l->broker->mono_ms;
	l->cost_us = l->spent_us;
}

bool backlog_go_on(struct backlog *l, uint64_t us)
{
	enum list_step step = LIST_STEP_END;
	struct pace slice;
	void *item;

	if (!l->is_walking)
		begin(l);
	pace_begin(&slice);
	while ((++slice.steps % STEPS != 0 || pace_taken_us(&slice) < us) &&
	       (step = list_walk_next(&l->walk, &item)) != LIST_STEP_END)
		if (step == LIST_STEP_ITEM)
			add(&l->next, item);
	l->spent_us += pace_taken_us(&slice);
	if (step == LIST_STEP_END)
		end(l);
	else
		list_walk_keep(&l->walk);
	return !l->is_walking;
}
