/* pause.h: a queue that takes no messages, or gives none, until somebody ends that or its
 * time is over.
 *
 * A pause of a durable queue is in Redis and survives a restart; its end is a time of the
 * wall clock. */
#pragma once

#include "queue.h"
#include "store/store.h"

#define PAUSE_FOREVER INT64_MAX

/* Pause the directions for which `directions` has the bit, until then; 0 resumes them. It
 * is so at once, and is taken back when Redis refuses it: the waiter is told. */
void pause_set(struct queue *q, unsigned directions, int64_t until_ms,
	       struct waiter *waiter);
/* A field of Redis: "in <queue>" or "out <queue>", and until when. */
void pause_restore(struct vhost *v, struct slice name, struct slice value);
/* Change that field: to resume is to remove it, which Redis does also while its memory is
 * out. */
void pause_store(const struct queue *q, const char *name, int64_t until_ms,
		 store_done_fn on_done, void *ctx);
/* Until when, from the value of a field; 0: it cannot be read. */
int64_t pause_read(struct slice value);
/* End what is over. */
void pause_tick(struct queue *q);

static inline bool pause_is_on(const struct queue *q, enum queue_direction direction)
{
	return q->paused_ms[direction] > q->vhost->broker->now_ms;
}

#define PAUSE_TEXT_MAX 64

/* "until RESUME", or for how long. */
void pause_format(const struct queue *q, enum queue_direction direction,
		  char out[PAUSE_TEXT_MAX]);
