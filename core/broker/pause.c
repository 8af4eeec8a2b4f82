#include "pause.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "host/log.h"
#include "queue.h"

static const char *const names[QUEUE_DIRECTIONS] = { "in", "out" };

/* A change on its way to Redis. */
struct pause_job {
	struct broker *broker;
	uint64_t serial; /* of the queue, which may be gone */
	enum queue_direction direction;
	int64_t had_ms, wanted_ms;
	struct waiter *waiter;
};

static void arm(struct queue *q, enum queue_direction direction)
{
	const struct broker *b = q->vhost->broker;
	int64_t until_ms = q->paused_ms[direction];

	if (until_ms && until_ms != PAUSE_FOREVER)
		queue_wake_by(q, b->mono_ms + (until_ms - b->now_ms));
}

static void tell(const struct queue *q, enum queue_direction direction, int64_t until_ms)
{
	char until[EVENT_NUMBER_MAX];

	EVENT_TELL(q->vhost->broker, until_ms ? EVENT_QUEUE_PAUSED : EVENT_QUEUE_RESUMED,
		   vhost_slice(q->vhost), queue_slice(q), slice_from(names[direction]),
		   until_ms && until_ms != PAUSE_FOREVER
			   ? event_number((uint64_t)until_ms, until)
			   : SLICE(""));
}

static void apply(struct queue *q, enum queue_direction direction, int64_t until_ms)
{
	bool is_news = q->paused_ms[direction] != until_ms;

	q->paused_ms[direction] = until_ms;
	if (is_news)
		tell(q, direction, until_ms);
	queue_guard(q);
	arm(q, direction);
	if (direction == QUEUE_OUT && !until_ms)
		queue_activate(q);
}

static void on_answer(void *ctx, int status, const char *text)
{
	struct pause_job *job = ctx;
	struct queue *q = queue_by_serial(job->broker, job->serial);

	if (q && status < 0 && status != TIDE_ESHUTDOWN &&
	    q->paused_ms[job->direction] == job->wanted_ms)
		apply(q, job->direction, job->had_ms);
	waiter_done(job->waiter, status, text);
	mem_free(job);
}

void pause_store(const struct queue *q, const char *name, int64_t until_ms,
		 store_done_fn on_done, void *ctx)
{
	struct store *s = q->vhost->broker->store;
	struct slice vhost = vhost_slice(q->vhost);
	struct buf value = { 0 };

	buf_append_uint(&value, until_ms == PAUSE_FOREVER ? 0 : (uint64_t)until_ms);
	if (until_ms)
		store_definition_set(s, STORE_PAUSES, vhost, slice_from(name),
				     buf_slice(&value), on_done, ctx);
	else
		store_definition_remove(s, STORE_PAUSES, vhost, slice_from(name), on_done,
					ctx);
	buf_deinit(&value);
}

int64_t pause_read(struct slice value)
{
	uint64_t until_ms = 0;

	if (!slice_to_uint(value, INT64_MAX - 1, &until_ms))
		return 0;
	return until_ms ? (int64_t)until_ms : PAUSE_FOREVER;
}

/* @param job  NULL: nobody waits for it */
static void store(const struct queue *q, enum queue_direction direction,
		  struct pause_job *job)
{
	struct buf name = { 0 };

	buf_printf(&name, "%s %s", names[direction], q->name);
	pause_store(q, buf_cstr(&name), q->paused_ms[direction], job ? on_answer : NULL,
		    job);
	buf_deinit(&name);
}

static void set(struct queue *q, enum queue_direction direction, int64_t until_ms,
		struct waiter *waiter)
{
	int64_t had_ms = q->paused_ms[direction];
	struct pause_job *job;

	apply(q, direction, until_ms);
	if (!queue_is_durable(q))
		return;
	job = mem_alloc(sizeof(*job));
	*job = (struct pause_job){ q->vhost->broker, q->serial, direction,
				   had_ms,           until_ms,  waiter };
	waiter_add(waiter);
	store(q, direction, job);
}

void pause_set(struct queue *q, unsigned directions, int64_t until_ms,
	       struct waiter *waiter)
{
	for (int i = 0; i < QUEUE_DIRECTIONS; i++)
		if (directions & (1u << i))
			set(q, (enum queue_direction)i, until_ms, waiter);
}

void pause_tick(struct queue *q)
{
	for (int i = 0; i < QUEUE_DIRECTIONS; i++) {
		enum queue_direction direction = (enum queue_direction)i;

		if (!q->paused_ms[i] || pause_is_on(q, direction)) {
			arm(q, direction);
			continue;
		}
		apply(q, direction, 0);
		if (queue_is_durable(q))
			store(q, direction, NULL);
	}
}

void pause_restore(struct vhost *v, struct slice name, struct slice value)
{
	struct slice rest = name, word = slice_cut(&rest, ' ');
	struct queue *q = queue_find(v, rest);
	int64_t until_ms = pause_read(value);

	if (q && until_ms)
		for (int i = 0; i < QUEUE_DIRECTIONS; i++)
			if (slice_is(word, names[i]))
				apply(q, (enum queue_direction)i, until_ms);
}

void pause_format(const struct queue *q, enum queue_direction direction,
		  char out[PAUSE_TEXT_MAX])
{
	int64_t left_ms = q->paused_ms[direction] - q->vhost->broker->now_ms;

	if (q->paused_ms[direction] == PAUSE_FOREVER)
		snprintf(out, PAUSE_TEXT_MAX, "until RESUME");
	else
		snprintf(out, PAUSE_TEXT_MAX, "for another %" PRId64 " s",
			 left_ms / 1000 + 1);
}
