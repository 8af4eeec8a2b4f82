#include "group_seek.h"

#include "base/mem.h"
#include "host/log.h"
#include "broker.h"
#include "group_commit.h"
#include "group_settle.h"
#include "queue.h"

/* A time is being looked for, or Redis is told where a SEEK goes on. */
struct group_search {
	struct group_claim *gc; /* NULL: it goes on elsewhere, or has gone */
	struct waiter *waiter;  /* of a SEEK; or NULL */
};

static struct group_search *begin(struct group_claim *gc, struct waiter *waiter)
{
	struct group_search *s = mem_alloc(sizeof(*s));

	*s = (struct group_search){ gc, waiter };
	if (waiter)
		waiter_add(waiter);
	gc->search = s;
	group_rest(gc);
	return s;
}

static void end(struct group_search *s, int status, const char *text)
{
	struct group_claim *gc = s->gc;

	if (gc)
		gc->search = NULL;
	if (s->waiter)
		waiter_done(s->waiter, status, text);
	mem_free(s);
	if (!gc)
		return;
	group_wake(gc);
	group_check(gc);
}

void group_seek_cancel(struct group_claim *gc)
{
	struct group_search *s = gc->search;

	gc->search = NULL;
	if (s)
		s->gc = NULL;
}

static void on_written(void *ctx, int status, const char *text)
{
	struct group_search *s = ctx;

	if (s->gc && status < 0)
		group_commit_mark(s->gc);
	end(s, status, text);
}

/* @param s  the search; it ends */
static void go_on(struct group_claim *gc, uint64_t offset, struct group_search *s)
{
	uint64_t readable = partition_readable(gc->partition);

	claim_reset(&gc->claim, offset < readable ? offset : readable);
	gc->is_far_ahead = gc->is_handover = false;
	if (s->waiter && group_commit_now(gc, on_written, s))
		return;
	group_commit_mark(gc);
	end(s, TIDE_OK, NULL);
}

static void on_found(void *ctx, int status, const char *text, uint64_t offset)
{
	struct group_search *s = ctx;
	struct group_claim *gc = s->gc;

	if (!gc || (status < 0 && s->waiter)) {
		end(s, status, text);
		return;
	}
	if (status < 0)
		log_warn("topic '%s': no position was found in partition %u: %s; it is "
			 "read from its start",
			 gc->group->topic->queue->name, gc->index,
			 text ? text : error_text(status));
	go_on(gc, status < 0 ? partition_start(gc->partition) : offset, s);
}

void group_seek(struct group_claim *gc, const struct position *to, struct waiter *waiter)
{
	const struct partition *p = gc->partition;
	uint64_t start = partition_start(p);
	struct group_search *s;

	group_seek_cancel(gc);
	group_settle_forget(gc);
	s = begin(gc, waiter);
	switch (to->kind) {
	case POSITION_NONE:
	case POSITION_COMMITTED:
	case POSITION_FIRST:
		go_on(gc, start, s);
		return;
	case POSITION_LAST:
		go_on(gc, partition_readable(p), s);
		return;
	case POSITION_OFFSET:
		go_on(gc, to->offset > start ? to->offset : start, s);
		return;
	case POSITION_TIME:
	case POSITION_AGO:
		partition_find_time(gc->partition,
				    position_time(to, group_broker(gc->group)->now_ms),
				    on_found, s);
		return;
	}
}
