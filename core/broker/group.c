#include "group.h"

#include "base/mem.h"
#include "host/log.h"
#include "group_commit.h"
#include "group_death.h"
#include "group_seek.h"
#include "group_settle.h"
#include "member.h"
#include "queue.h"

struct broker *group_broker(const struct topic_group *g)
{
	return g->topic->queue->vhost->broker;
}

unsigned group_width(const struct topic_group *g)
{
	return g->topic->queue->config.shards;
}

static struct group_set *open_set(struct topic *t)
{
	unsigned width = t->queue->config.shards;
	struct group_set *set = t->groups;

	if (set)
		return set;
	set = t->groups = mem_zalloc(sizeof(*set));
	TAILQ_INIT(&set->readers);
	set->watches = mem_zalloc(width * sizeof(*set->watches));
	for (unsigned i = 0; i < width; i++) {
		set->watches[i].topic = t;
		set->watches[i].index = i;
		TAILQ_INIT(&set->watches[i].claims);
	}
	return set;
}

struct topic_group *group_find(const struct topic *t, struct slice name)
{
	struct topic_group *g = NULL;

	if (t->groups)
		HASH_FIND(hh, t->groups->by_name, name.data, name.len, g);
	return g;
}

int group_admit(const struct topic *t, struct slice name, struct error *err)
{
	unsigned max = t->queue->vhost->broker->config.groups_max;

	if (!t->groups || HASH_COUNT(t->groups->by_name) < max || group_find(t, name))
		return TIDE_OK;
	return error_set(
		err, TIDE_ELIMIT,
		"the limit of %u groups is reached in topic '%s' (--max-groups); "
		"DELETE group removes one that is not needed",
		max, t->queue->name);
}

static struct topic_group *create(struct topic *t)
{
	unsigned width = t->queue->config.shards;
	struct topic_group *g = mem_zalloc(sizeof(*g));

	open_set(t);
	g->topic = t;
	g->only = -1;
	TAILQ_INIT(&g->members);
	TAILQ_INIT(&g->pulls);
	TAILQ_INIT(&g->ready);
	g->claims = mem_zalloc(width * sizeof(*g->claims));
	g->committed = mem_alloc(width * sizeof(*g->committed));
	for (unsigned i = 0; i < width; i++)
		g->committed[i] = GROUP_UNKNOWN;
	return g;
}

struct topic_group *group_open(struct topic *t, struct slice name)
{
	struct topic_group *g = group_find(t, name);

	if (g)
		return g;
	g = create(t);
	g->name = mem_strndup(name.data, name.len);
	g->name_len = name.len;
	HASH_ADD_KEYPTR(hh, t->groups->by_name, g->name, g->name_len, g);
	return g;
}

struct topic_group *group_create_reader(struct topic *t, int64_t only)
{
	struct topic_group *g = create(t);

	g->only = only;
	TAILQ_INSERT_TAIL(&t->groups->readers, g, link);
	return g;
}

static struct group_watch *watch_of(const struct group_claim *gc)
{
	return &gc->group->topic->groups->watches[gc->index];
}

struct group_claim *group_open_claim(struct topic_group *g, unsigned index)
{
	struct group_claim *gc = g->claims[index];
	struct partition *p;
	uint64_t start;

	if (gc)
		return gc;
	p = topic_partition(g->topic, index);
	start = g->committed[index];
	gc = g->claims[index] = mem_zalloc(sizeof(*gc));
	gc->group = g;
	gc->partition = p;
	gc->index = index;
	TAILQ_INIT(&gc->dying);
	claim_init(&gc->claim, start == GROUP_UNKNOWN ? partition_start(p) : start,
		   &group_broker(g)->groups.runs);
	TAILQ_INSERT_TAIL(&watch_of(gc)->claims, gc, watch_link);
	return gc;
}

uint64_t group_committed(const struct topic_group *g, unsigned index)
{
	const struct group_claim *gc = g->claims[index];

	return gc && !gc->search ? gc->claim.committed : g->committed[index];
}

bool group_is_free(const struct group_claim *gc)
{
	const struct getter *pull = TAILQ_FIRST(&gc->group->pulls);

	if (gc->owner)
		return false;
	return gc->claim.held == 0 || !gc->group->topic->queue->config.keeps_order ||
	       (pull && pull->source == gc);
}

/* The consumer that may be given the next record; NULL: there is none. */
static struct consumer *taker_of(const struct group_claim *gc)
{
	const struct getter *pull = TAILQ_FIRST(&gc->group->pulls);

	if (gc->owner)
		return gc->is_handover ? NULL : gc->owner->consumer;
	return pull && group_is_free(gc) ? pull->consumers : NULL;
}

static struct group_claim_list *ready_list(struct group_claim *gc)
{
	return gc->owner ? &gc->owner->ready : &gc->group->ready;
}

void group_wake(struct group_claim *gc)
{
	struct consumer *c = taker_of(gc);

	if (gc->is_ready || !c || gc->search)
		return;
	gc->is_ready = true;
	TAILQ_INSERT_TAIL(ready_list(gc), gc, ready_link);
	consumer_wake(c);
}

void group_rest(struct group_claim *gc)
{
	if (gc->is_ready)
		TAILQ_REMOVE(ready_list(gc), gc, ready_link);
	gc->is_ready = false;
}

/* Reading stops until the claim is woken again. */
static void close_cursors(struct group_claim *gc)
{
	cursor_destroy(gc->cursor);
	cursor_destroy(gc->again);
	gc->cursor = gc->again = NULL;
	gc->is_reading = false;
}

static void free_claim(struct group_claim *gc)
{
	struct topic_group *g = gc->group;

	group_rest(gc);
	close_cursors(gc);
	group_seek_cancel(gc);
	group_death_forget(gc);
	g->committed[gc->index] = gc->claim.committed;
	g->claims[gc->index] = NULL;
	claim_deinit(&gc->claim);
	TAILQ_REMOVE(&watch_of(gc)->claims, gc, watch_link);
	mem_free(gc);
}

/* All that it knows is in `committed`; of a reader nothing is kept. */
static bool is_plain(const struct group_claim *gc)
{
	if (!gc->group->name)
		return gc->claim.held == 0;
	return gc->claim.committed == gc->claim.reached && !gc->search && !gc->is_dirty &&
	       !watch_of(gc)->flight;
}

/* A puller comes back soon: what was read ahead is kept until its records are written. */
static bool is_in_use(const struct group_claim *gc)
{
	return gc->claim.held > 0 || gc->is_dirty || watch_of(gc)->flight;
}

static bool drop_if_plain(struct group_claim *gc)
{
	if (gc->owner || !TAILQ_EMPTY(&gc->group->pulls))
		return false;
	if (is_plain(gc)) {
		free_claim(gc);
		return true;
	}
	group_rest(gc);
	if (!is_in_use(gc))
		close_cursors(gc);
	return false;
}

static void destroy(struct topic_group *g)
{
	for (unsigned i = 0; i < group_width(g); i++)
		if (g->claims[i]) {
			group_settle_forget(g->claims[i]);
			free_claim(g->claims[i]);
		}
	if (g->name)
		HASH_DEL(g->topic->groups->by_name, g);
	else
		TAILQ_REMOVE(&g->topic->groups->readers, g, link);
	mem_free(g->claims);
	mem_free(g->committed);
	mem_free(g->name);
	mem_free(g);
}

static void drop_reader(struct topic_group *g)
{
	if (g->name || g->member_count > 0 || g->pull_count > 0)
		return;
	for (unsigned i = 0; i < group_width(g); i++)
		if (g->claims[i])
			return;
	destroy(g);
}

void group_check(struct group_claim *gc)
{
	struct topic_group *g = gc->group;

	if (gc->claim.held == 0 && (gc->is_handover || !gc->owner)) {
		gc->is_handover = false;
		group_wake(gc);
	}
	if (drop_if_plain(gc))
		drop_reader(g);
}

void group_left(struct topic_group *g)
{
	for (unsigned i = 0; i < group_width(g); i++)
		if (g->claims[i] && !g->claims[i]->owner && !drop_if_plain(g->claims[i]))
			group_wake(g->claims[i]);
	drop_reader(g);
}

void group_erase(struct topic_group *g, struct waiter *waiter)
{
	for (unsigned i = 0; i < group_width(g); i++)
		group_commit_erase(g, i, waiter);
	destroy(g);
}

void group_hear_news(struct partition *p)
{
	struct group_set *set = topic_of(p)->groups;
	struct group_claim *gc;

	if (!set)
		return;
	TAILQ_FOREACH (gc, &set->watches[partition_index(p)].claims, watch_link)
		group_wake(gc);
}

void group_restore(struct partition *p, struct slice name, uint64_t committed)
{
	struct topic_group *g = group_open(topic_of(p), name);
	uint64_t end = partition_readable(p);

	/* The log was restored from a copy: offsets behind its end will be others. */
	if (committed > end) {
		log_warn("topic '%s': group '%s' has committed offset %llu of partition "
			 "%u, which ends at %llu: it goes on at its end",
			 g->topic->queue->name, g->name, (unsigned long long)committed,
			 partition_index(p), (unsigned long long)end);
		committed = end;
	}
	g->committed[partition_index(p)] = committed;
}

void group_close_all(struct topic *t)
{
	struct group_set *set = t->groups;
	struct topic_group *g, *next;

	if (!set)
		return;
	while ((g = TAILQ_FIRST(&set->readers)) != NULL)
		destroy(g);
	HASH_ITER (hh, set->by_name, g, next)
		destroy(g);
	for (unsigned i = 0; i < t->queue->config.shards; i++)
		group_commit_forget(&set->watches[i]);
	mem_free(set->watches);
	mem_free(set);
	t->groups = NULL;
}
