#include "group_commit.h"

#include "base/mem.h"
#include "host/log.h"
#include "queue.h"

#define RETRY_MS 1000
#define REFUSED_LOG_MS 60000

/* Offsets of a partition on their way. */
struct group_flight {
	struct group_watch *watch; /* NULL: the topic has gone */
	struct group_env *env;
	int64_t retry_ms;
};

static bool is_kept(const struct topic_group *g)
{
	return g->name && queue_is_durable(g->topic->queue);
}

static void list(struct group_env *env, struct group_watch *w, int64_t due_ms)
{
	if (w->is_dirty)
		return;
	if (TAILQ_EMPTY(&env->dirty))
		env->commit_due_ms = due_ms;
	w->is_dirty = true;
	TAILQ_INSERT_TAIL(&env->dirty, w, dirty_link);
}

static void unlist(struct group_env *env, struct group_watch *w)
{
	if (w->is_dirty)
		TAILQ_REMOVE(&env->dirty, w, dirty_link);
	w->is_dirty = false;
}

void group_commit_mark(struct group_claim *gc)
{
	struct broker *b = group_broker(gc->group);

	if (gc->is_dirty || !is_kept(gc->group))
		return;
	gc->is_dirty = true;
	list(&b->groups, &gc->group->topic->groups->watches[gc->index],
	     b->mono_ms + GROUP_COMMIT_MS);
}

/* Commits that Redis did not write are written again, whichever they were. */
static void mark_all(struct group_watch *w, struct group_env *env, int64_t due_ms)
{
	struct group_claim *gc;

	TAILQ_FOREACH (gc, &w->claims, watch_link)
		gc->is_dirty |= gc->group->name != NULL;
	list(env, w, due_ms);
}

static void check_all(struct group_watch *w)
{
	struct group_claim *gc, *next;

	for (gc = TAILQ_FIRST(&w->claims); gc; gc = next) {
		next = TAILQ_NEXT(gc, watch_link);
		if (!gc->owner)
			group_check(gc);
	}
}

static void log_refusal(struct group_env *env, const struct group_watch *w, int status,
			const char *text)
{
	const struct queue *q = w->topic->queue;

	if (status == TIDE_ESHUTDOWN ||
	    !log_is_due(&env->commit_logged_ms, q->vhost->broker->mono_ms,
			REFUSED_LOG_MS))
		return;
	log_warn("topic '%s' of vhost '%s': the offsets that groups have committed in "
		 "partition %u are not written: %s; all such are tried again each second",
		 q->name, q->vhost->name, w->index, text ? text : error_text(status));
}

static void on_written(void *ctx, int status, const char *text)
{
	struct group_flight *f = ctx;
	struct group_watch *w = f->watch;

	f->env->commits--;
	if (w) {
		w->flight = NULL;
		if (status < 0) {
			log_refusal(f->env, w, status, text);
			mark_all(w, f->env, f->retry_ms);
		}
		check_all(w);
	}
	mem_free(f);
}

static size_t gather(struct group_watch *w, struct store_log_group *groups)
{
	struct group_claim *gc;
	size_t count = 0;

	TAILQ_FOREACH (gc, &w->claims, watch_link) {
		if (!gc->is_dirty)
			continue;
		gc->is_dirty = false;
		groups[count++] = (struct store_log_group){
			{ gc->group->name, gc->group->name_len }, gc->claim.committed
		};
	}
	return count;
}

static size_t count_dirty(const struct group_watch *w)
{
	const struct group_claim *gc;
	size_t count = 0;

	TAILQ_FOREACH (gc, &w->claims, watch_link)
		count += gc->is_dirty;
	return count;
}

static void write_offsets(struct broker *b, struct group_watch *w)
{
	size_t count = count_dirty(w);
	struct store_log_group *groups = mem_alloc((count + 1) * sizeof(*groups));
	struct store_log_commit commit = { .groups = groups };
	struct group_flight *f;

	commit.count = gather(w, groups);
	unlist(&b->groups, w);
	if (commit.count > 0) {
		f = w->flight = mem_alloc(sizeof(*f));
		*f = (struct group_flight){ w, &b->groups, b->mono_ms + RETRY_MS };
		b->groups.commits++;
		partition_commit(topic_partition(w->topic, w->index), &commit, on_written,
				 f);
	}
	mem_free(groups);
}

void group_commit_turn(struct broker *b)
{
	struct group_watch *w, *next;

	if (TAILQ_EMPTY(&b->groups.dirty) || b->mono_ms < b->groups.commit_due_ms)
		return;
	for (w = TAILQ_FIRST(&b->groups.dirty); w; w = next) {
		next = TAILQ_NEXT(w, dirty_link);
		if (w->flight)
			continue;
		write_offsets(b, w);
		if (pace_is_spent(&b->pace, false))
			return;
	}
	/* The other commits wait for those under way. */
	b->groups.commit_due_ms = b->mono_ms + GROUP_COMMIT_MS;
}

int64_t group_commit_due_ms(const struct broker *b)
{
	if (TAILQ_EMPTY(&b->groups.dirty))
		return 0;
	return b->now_ms + (b->groups.commit_due_ms - b->mono_ms);
}

bool group_commit_now(struct group_claim *gc, store_done_fn on_done, void *ctx)
{
	const struct topic_group *g = gc->group;
	const struct store_log_group group = { { g->name, g->name_len },
					       gc->claim.committed };

	if (!is_kept(g))
		return false;
	partition_commit(gc->partition,
			 &(struct store_log_commit){ .groups = &group, .count = 1 },
			 on_done, ctx);
	return true;
}

void group_commit_erase(struct topic_group *g, unsigned index, struct waiter *waiter)
{
	const struct store_log_group group = { { g->name, g->name_len }, 0 };
	const struct store_log_commit commit = { &group, 1, true };

	if (!is_kept(g))
		return;
	if (waiter)
		waiter_add(waiter);
	partition_commit(topic_partition(g->topic, index), &commit,
			 waiter ? waiter_store_done : NULL, waiter);
}

void group_commit_forget(struct group_watch *w)
{
	if (w->flight)
		w->flight->watch = NULL;
	unlist(&w->topic->queue->vhost->broker->groups, w);
}
