#include "group_pause.h"

#include "base/mem.h"
#include "pause.h"
#include "queue.h"

/* A change on its way to Redis. */
struct group_pause_job {
	struct broker *broker;
	uint64_t serial; /* of the topic, which may be gone */
	char *group;     /* so may this one */
	int64_t had_ms, wanted_ms;
	struct waiter *waiter;
};

static void arm(const struct topic_group *g)
{
	const struct broker *b = group_broker(g);

	if (g->paused_ms && g->paused_ms != PAUSE_FOREVER)
		queue_wake_by(g->topic->queue, b->mono_ms + (g->paused_ms - b->now_ms));
}

static void apply(struct topic_group *g, int64_t until_ms)
{
	g->paused_ms = until_ms;
	arm(g);
	group_hear_pause(g);
}

static void on_answer(void *ctx, int status, const char *text)
{
	struct group_pause_job *job = ctx;
	struct queue *q = queue_by_serial(job->broker, job->serial);
	struct topic_group *g = q ? group_find(q->topic, slice_from(job->group)) : NULL;

	if (g && status < 0 && status != TIDE_ESHUTDOWN && g->paused_ms == job->wanted_ms)
		apply(g, job->had_ms);
	waiter_done(job->waiter, status, text);
	mem_free(job->group);
	mem_free(job);
}

/* @param job  NULL: nobody waits for it */
static void store(const struct topic_group *g, int64_t until_ms,
		  struct group_pause_job *job)
{
	const struct queue *q = g->topic->queue;
	struct buf name = { 0 };

	buf_printf(&name, "group %s %s", q->name, g->name);
	pause_store(q, buf_cstr(&name), until_ms, job ? on_answer : NULL, job);
	buf_deinit(&name);
}

void group_pause_set(struct topic_group *g, int64_t until_ms, struct waiter *waiter)
{
	const struct queue *q = g->topic->queue;
	int64_t had_ms = g->paused_ms;
	struct group_pause_job *job;

	apply(g, until_ms);
	if (!queue_is_durable(q))
		return;
	job = mem_alloc(sizeof(*job));
	*job = (struct group_pause_job){
		group_broker(g), q->serial, mem_strndup(g->name, g->name_len),
		had_ms,          until_ms,  waiter
	};
	waiter_add(waiter);
	store(g, until_ms, job);
}

void group_pause_forget(const struct topic_group *g)
{
	if (g->paused_ms && queue_is_durable(g->topic->queue))
		store(g, 0, NULL);
}

void group_pause_tick(struct topic *t)
{
	struct topic_group *g = t->groups ? t->groups->by_name : NULL;

	for (; g; g = g->hh.next) {
		if (!g->paused_ms || group_is_paused(g)) {
			arm(g);
			continue;
		}
		group_pause_forget(g);
		apply(g, 0);
	}
}

void group_pause_restore(struct vhost *v, struct slice name, struct slice value)
{
	struct slice group = name, topic = slice_cut(&group, ' ');
	struct queue *q = queue_find(v, topic);
	int64_t until_ms = pause_read(value);

	if (q && q->topic && group.len > 0 && until_ms)
		apply(group_open(q->topic, group), until_ms);
}
