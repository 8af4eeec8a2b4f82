/* waiter.h: a count of steps that must end before a callback runs.
 *
 * Embedded in what waits. `remaining` starts at 1 for its creator: it cannot complete
 * while steps are still being added. The first failure is kept, with what was said of it
 * last: many steps may fail for one reason. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct waiter {
	uint32_t remaining;
	int status;
	const char *
		text; /* with a failure: what was said, or NULL; good for the call only */
	void (*on_done)(struct waiter *w);
};

static inline void waiter_init(struct waiter *w, void (*on_done)(struct waiter *w))
{
	w->remaining = 1;
	w->status = 0;
	w->text = NULL;
	w->on_done = on_done;
}

static inline void waiter_add(struct waiter *w)
{
	w->remaining++;
}

/* One thing is done. After the last, on_done may have freed the waiter. */
static inline void waiter_done(struct waiter *w, int status, const char *text)
{
	if (status < 0 && (w->status == 0 || w->status == status)) {
		w->status = status;
		w->text = text;
	}
	if (--w->remaining == 0)
		w->on_done(w);
	else
		w->text = NULL;
}

/* A store_done_fn for which the waiter is the context. */
static inline void waiter_store_done(void *ctx, int status, const char *text)
{
	waiter_done(ctx, status, text);
}
