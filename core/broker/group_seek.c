#include "group_seek.h"

#include "base/mem.h"
#include "host/log.h"
#include "broker.h"
#include "group_commit.h"
#include "group_settle.h"
#include "queue.h"

struct group_search {
	struct group_claim *gc;
	struct waiter *waiter;
};

static void end(struct group_search *s, int status, const char *text)
{
	if (s->waiter)
		waiter_done(s->waiter, status, text);
	mem_free(s);
}

void group_seek_cancel(struct group_claim *gc)
{
	struct group_search *s = gc->search;

	gc->search = NULL;
	if (s)
		s->gc = NULL;
}

static void go_on(struct group_claim *gc, uint64_t offset, struct waiter *waiter)
{
	uint64_t end = partition_readable(gc->partition);

	claim_reset(&gc->claim, offset < end ? offset : end);
	gc->is_far_ahead = gc->is_handover = false;
	if (waiter)
		group_commit_now(gc, waiter);
	else
		group_commit_mark(gc);
	group_wake(gc);
	group_check(gc);
}

static void on_found(void *ctx, int status, const char *text, uint64_t offset)
{
	struct group_search *s = ctx;
	struct group_claim *gc = s->gc;

	if (gc) {
		gc->search = NULL;
		if (status < 0)
			log_warn("topic '%s': no position was found in partition %u: %s; "
				 "it is read from its start",
				 gc->group->topic->queue->name, gc->index,
				 text ? text : error_text(status));
		go_on(gc, status < 0 ? partition_start(gc->partition) : offset,
		      s->waiter);
	}
	end(s, status, text);
}

static void search(struct group_claim *gc, int64_t unix_ms, struct waiter *waiter)
{
	struct group_search *s = mem_alloc(sizeof(*s));

	*s = (struct group_search){ gc, waiter };
	if (waiter)
		waiter_add(waiter);
	gc->search = s;
	group_rest(gc);
	partition_find_time(gc->partition, unix_ms, on_found, s);
}

void group_seek(struct group_claim *gc, const struct position *to, struct waiter *waiter)
{
	const struct partition *p = gc->partition;

	group_seek_cancel(gc);
	group_settle_forget(gc);
	switch (to->kind) {
	case POSITION_NONE:
	case POSITION_COMMITTED:
	case POSITION_FIRST:
		go_on(gc, partition_start(p), waiter);
		return;
	case POSITION_LAST:
		go_on(gc, partition_readable(p), waiter);
		return;
	case POSITION_OFFSET:
		go_on(gc,
		      to->offset > partition_start(p) ? to->offset : partition_start(p),
		      waiter);
		return;
	case POSITION_TIME:
	case POSITION_AGO:
		search(gc, position_time(to, group_broker(gc->group)->now_ms), waiter);
		return;
	}
}
