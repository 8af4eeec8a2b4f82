#include "group.h"

#include "base/decimal.h"
#include "base/mem.h"
#include "broker.h"
#include "group_settle.h"
#include "host/log.h"
#include "log/assign.h"
#include "queue.h"

#define GROUP_COMMIT_MS 100

static void cancel_search(struct group_claim *gc);
static void erase_commits(struct topic_group *g, unsigned index, struct waiter *waiter);
static void forget_flight(struct group_watch *w);

struct broker *group_broker(const struct topic_group *g)
{
	return g->topic->queue->vhost->broker;
}

unsigned group_width(const struct topic_group *g)
{
	return g->topic->queue->config.shards;
}

static struct group_watch *create_watches(struct topic *t)
{
	unsigned width = t->queue->config.shards;
	struct group_watch *watches = mem_zalloc(width * sizeof(*watches));

	for (unsigned i = 0; i < width; i++) {
		watches[i].topic = t;
		watches[i].index = i;
		TAILQ_INIT(&watches[i].claims);
	}
	return watches;
}

static struct group_set *open_set(struct topic *t)
{
	struct group_set *set = t->groups;

	if (set)
		return set;
	set = t->groups = mem_zalloc(sizeof(*set));
	TAILQ_INIT(&set->readers);
	set->watches = create_watches(t);
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

bool group_has_begun(const struct topic_group *g)
{
	for (unsigned i = 0; i < group_width(g); i++)
		if (g->claims[i] || g->committed[i] != GROUP_UNKNOWN)
			return true;
	return false;
}

bool group_is_free(const struct group_claim *gc)
{
	const struct getter *pull = TAILQ_FIRST(&gc->group->pulls);

	if (gc->owner)
		return false;
	return gc->claim.held == 0 || !gc->group->topic->queue->config.keeps_order ||
	       (pull && pull->source == gc);
}

bool group_is_paused(const struct topic_group *g)
{
	return g->paused_ms && g->paused_ms > group_broker(g)->now_ms;
}

/* The consumer that may be given the next record; NULL: there is none. */
static struct consumer *taker_of(const struct group_claim *gc)
{
	const struct getter *pull = TAILQ_FIRST(&gc->group->pulls);

	if (group_is_paused(gc->group))
		return NULL;
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

void group_hear_pause(struct topic_group *g)
{
	for (unsigned i = 0; i < group_width(g); i++) {
		if (!g->claims[i])
			continue;
		group_rest(g->claims[i]);
		group_wake(g->claims[i]);
	}
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

	group_settle_forget(gc);
	group_rest(gc);
	close_cursors(gc);
	cancel_search(gc);
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
		if (g->claims[i])
			free_claim(g->claims[i]);
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

/* A reader's only member has gone, or the last one of a group, or the last GET: what
 * nobody needs goes; perhaps the group. */
static void group_left(struct topic_group *g)
{
	for (unsigned i = 0; i < group_width(g); i++)
		if (g->claims[i] && !g->claims[i]->owner && !drop_if_plain(g->claims[i]))
			group_wake(g->claims[i]);
	drop_reader(g);
}

void group_erase(struct topic_group *g, struct waiter *waiter)
{
	for (unsigned i = 0; i < group_width(g); i++)
		erase_commits(g, i, waiter);
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
		forget_flight(&set->watches[i]);
	mem_free(set->watches);
	mem_free(set);
	t->groups = NULL;
}

/* Committed offsets are written behind, all of a partition at once.
 *
 * An ack is answered when the claim has it. What has been committed is with Redis
 * GROUP_COMMIT_MS later, and at the end of the broker. */

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

/* Write it now. False: it is not kept, and on_done does not come. */
static bool commit_now(struct group_claim *gc, store_done_fn on_done, void *ctx)
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

/* Redis forgets the group in that partition. `waiter` may be NULL. */
static void erase_commits(struct topic_group *g, unsigned index, struct waiter *waiter)
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

/* The topic goes: nobody needs to know any more. */
static void forget_flight(struct group_watch *w)
{
	if (w->flight)
		w->flight->watch = NULL;
	unlist(&w->topic->queue->vhost->broker->groups, w);
}

/* A group goes on somewhere else, or begins. */

/* A time is being looked for, or Redis is told where a SEEK goes on. */
struct group_search {
	struct group_claim *gc; /* NULL: it goes on elsewhere, or has gone */
	struct waiter *waiter;  /* of a SEEK; or NULL */
};

static struct group_search *begin_search(struct group_claim *gc, struct waiter *waiter)
{
	struct group_search *s = mem_alloc(sizeof(*s));

	*s = (struct group_search){ gc, waiter };
	if (waiter)
		waiter_add(waiter);
	gc->search = s;
	group_rest(gc);
	return s;
}

static void end_search(struct group_search *s, int status, const char *text)
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

/* The position is needed no longer. */
static void cancel_search(struct group_claim *gc)
{
	struct group_search *s = gc->search;

	gc->search = NULL;
	if (s)
		s->gc = NULL;
}

static void on_position_written(void *ctx, int status, const char *text)
{
	struct group_search *s = ctx;

	if (s->gc && status < 0)
		group_commit_mark(s->gc);
	end_search(s, status, text);
}

/* @param s  the search; it ends */
static void go_on_at(struct group_claim *gc, uint64_t offset, struct group_search *s)
{
	uint64_t readable = partition_readable(gc->partition);

	claim_reset(&gc->claim, offset < readable ? offset : readable);
	gc->is_far_ahead = gc->is_handover = false;
	if (s->waiter && commit_now(gc, on_position_written, s))
		return;
	group_commit_mark(gc);
	end_search(s, TIDE_OK, NULL);
}

static void on_found(void *ctx, int status, const char *text, uint64_t offset)
{
	struct group_search *s = ctx;
	struct group_claim *gc = s->gc;

	if (!gc || (status < 0 && s->waiter)) {
		end_search(s, status, text);
		return;
	}
	if (status < 0)
		log_warn("topic '%s': no position was found in partition %u: %s; it is "
			 "read from its start",
			 gc->group->topic->queue->name, gc->index,
			 text ? text : error_text(status));
	go_on_at(gc, status < 0 ? partition_start(gc->partition) : offset, s);
}

void group_seek(struct group_claim *gc, const struct position *to, struct waiter *waiter)
{
	const struct partition *p = gc->partition;
	uint64_t start = partition_start(p);
	struct group_search *s;

	cancel_search(gc);
	group_settle_forget(gc);
	s = begin_search(gc, waiter);
	switch (to->kind) {
	case POSITION_NONE:
	case POSITION_COMMITTED:
	case POSITION_FIRST:
		go_on_at(gc, start, s);
		return;
	case POSITION_LAST:
		go_on_at(gc, partition_last(p, to->offset), s);
		return;
	case POSITION_OFFSET:
		go_on_at(gc, to->offset > start ? to->offset : start, s);
		return;
	case POSITION_TIME:
	case POSITION_AGO:
		partition_find_time(gc->partition,
				    position_time(to, group_broker(gc->group)->now_ms),
				    on_found, s);
		return;
	}
}

/* How far groups are behind. */

/* The first message that the group has not settled. */
static uint64_t first_left(const struct topic_group *g, const struct partition *p,
			   unsigned index)
{
	uint64_t committed = group_committed(g, index);

	return committed == GROUP_UNKNOWN || committed < partition_start(p)
		       ? partition_start(p)
		       : committed;
}

uint64_t group_lag_in(const struct topic_group *g, unsigned partition)
{
	const struct partition *p = g->topic->partitions[partition];

	return p ? partition_readable(p) - first_left(g, p, partition) : 0;
}

uint64_t group_lag_all(const struct topic_group *g)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < group_width(g); i++)
		sum += group_lag_in(g, i);
	return sum;
}

int64_t group_lag_since(const struct topic_group *g)
{
	int64_t oldest = 0;

	for (unsigned i = 0; i < group_width(g); i++) {
		const struct partition *p = g->topic->partitions[i];
		int64_t since;

		if (group_lag_in(g, i) == 0)
			continue;
		since = partition_time_at(p, first_left(g, p, i));
		if (!since)
			return -1;
		oldest = heap_earlier(oldest, since);
	}
	return oldest;
}

/* A subscription of a topic: one of a group.
 *
 * The members of a group share its partitions: each has one member (log/assign.h), which
 * is told what it has. A partition that changes hands is read on when nothing of it is
 * held any more. */

static bool keeps_order(const struct topic_group *g)
{
	return g->topic->queue->config.keeps_order;
}

/* A member gets the partition: a GET that waits for more of it ends with what it has. */
static void lose_source(const struct group_claim *gc)
{
	struct getter *first = TAILQ_FIRST(&gc->group->pulls);

	if (first && first->source == gc)
		getter_await_no_more(first);
}

static void give_partition(struct topic_group *g, unsigned partition, struct member *m)
{
	struct group_claim *gc =
		m ? group_open_claim(g, partition) : g->claims[partition];

	if (!gc || gc->owner == m)
		return;
	group_rest(gc);
	if (gc->owner)
		gc->owner->is_changed = true;
	gc->owner = m;
	lose_source(gc);
	gc->is_handover = m && gc->claim.held > 0 && keeps_order(g);
	if (m) {
		m->is_changed = true;
		group_wake(gc);
	} else {
		group_check(gc);
	}
}

/* All that a reader wants. */
static void give_all(struct topic_group *g, struct member *m)
{
	for (unsigned i = 0; i < group_width(g); i++)
		if (g->only < 0 || g->only == i)
			give_partition(g, i, m);
}

static void share_partitions(struct topic_group *g)
{
	unsigned owners[QUEUE_SHARDS_MAX], count = 0;
	struct member **members = mem_alloc((g->member_count + 1) * sizeof(*members));
	struct member *m;

	TAILQ_FOREACH (m, &g->members, link) {
		m->number = count;
		members[count++] = m;
	}
	for (unsigned i = 0; i < group_width(g); i++) {
		const struct group_claim *gc = g->claims[i];

		owners[i] = gc && gc->owner ? gc->owner->number : ASSIGN_NONE;
	}
	assign_partitions(owners, group_width(g), count);
	for (unsigned i = 0; i < group_width(g); i++)
		give_partition(g, i,
			       owners[i] == ASSIGN_NONE ? NULL : members[owners[i]]);
	mem_free(members);
}

static void tell_members(const struct topic_group *g)
{
	struct member *m;

	TAILQ_FOREACH (m, &g->members, link)
		if (m->is_changed && g->name)
			m->consumer->ops->on_assigned(m->consumer);
}

struct member *member_create(struct topic_group *g, struct consumer *c)
{
	struct member *m = mem_zalloc(sizeof(*m));

	m->group = g;
	m->consumer = c;
	m->is_changed = true;
	TAILQ_INIT(&m->ready);
	TAILQ_INSERT_TAIL(&g->members, m, link);
	g->member_count++;
	c->member = m;
	if (g->name)
		share_partitions(g);
	else
		give_all(g, m);
	tell_members(g);
	return m;
}

/* Take a member out of its group; its partitions are without an owner for a moment. */
static void leave(struct member *m)
{
	for (unsigned i = 0; i < group_width(m->group); i++) {
		struct group_claim *gc = m->group->claims[i];

		if (!gc || gc->owner != m)
			continue;
		group_rest(gc);
		gc->owner = NULL;
	}
}

void member_destroy(struct member *m)
{
	struct topic_group *g = m->group;

	leave(m);
	TAILQ_REMOVE(&g->members, m, link);
	g->member_count--;
	m->consumer->member = NULL;
	mem_free(m);
	if (g->member_count > 0) {
		share_partitions(g);
		tell_members(g);
	} else {
		group_left(g);
	}
}

void member_format(const struct member *m, char out[MEMBER_PARTITIONS_MAX])
{
	const struct topic_group *g = m->group;
	char *at = out;

	for (unsigned i = 0; i < group_width(g); i++) {
		if (!g->claims[i] || g->claims[i]->owner != m)
			continue;
		if (at != out)
			*at++ = ',';
		at = decimal_put(at, i);
	}
	if (at == out)
		*at++ = '-';
	*at = '\0';
}

uint64_t member_lag(const struct member *m)
{
	const struct topic_group *g = m->group;
	uint64_t sum = 0;

	for (unsigned i = 0; i < group_width(g); i++)
		if (g->claims[i] && g->claims[i]->owner == m)
			sum += group_lag_in(g, i);
	return sum;
}

/* A GET of a topic: it takes messages of one partition, once.
 *
 * The GETs of a group stand in one line. The first gets what the next free partition has:
 * one that no member has and of which nobody holds anything. So several clients that pull
 * work side by side, each on a partition of its own, in order. While no partition is free
 * they wait: for an ack, for a member that leaves, for news of a partition. Nothing is
 * done for them in a turn.
 *
 * A GET without a group is the only one of a reader, of one partition. */

/* An offset that a reader names is exact, also if the partition ends before it. */
static void begin_reading(struct group_claim *gc, const struct position *from)
{
	if (gc->group->name || from->kind != POSITION_OFFSET) {
		group_seek(gc, from, NULL);
		return;
	}
	claim_reset(&gc->claim, from->offset);
	group_wake(gc);
}

static void open_claim(struct topic_group *g, unsigned index, const struct position *from,
		       bool is_new)
{
	struct group_claim *gc = group_open_claim(g, index);

	if (is_new)
		begin_reading(gc, from);
	else if (!gc->owner)
		group_wake(gc);
}

void group_pull_join(struct getter *pull, struct topic_group *g,
		     const struct position *from)
{
	unsigned width = group_width(g);
	bool is_new = !group_has_begun(g);

	pull->group = g;
	TAILQ_INSERT_TAIL(&g->pulls, pull, line_link);
	if (g->pull_count++ > 0)
		return;
	for (unsigned i = 0; i < width; i++) {
		unsigned index = (g->next_pulled + i) % width;

		if (g->only < 0 || g->only == index)
			open_claim(g, index, from, is_new);
	}
}

void group_pull_leave(struct getter *pull)
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

/* A topic has more partitions: all that is kept by partition grows, and members and GETs
 * are given the new ones. */

/* What points to a watch, or lies in it, follows it to its new place. */
static void move_watch(struct group_env *env, struct group_watch *to,
		       struct group_watch *from)
{
	*to = *from;
	TAILQ_INIT(&to->claims);
	TAILQ_CONCAT(&to->claims, &from->claims, watch_link);
	if (to->flight)
		to->flight->watch = to;
	if (!from->is_dirty)
		return;
	TAILQ_INSERT_BEFORE(from, to, dirty_link);
	TAILQ_REMOVE(&env->dirty, from, dirty_link);
}

static void widen_watches(struct topic *t, unsigned had)
{
	struct group_watch *former = t->groups->watches;

	t->groups->watches = create_watches(t);
	for (unsigned i = 0; i < had; i++)
		move_watch(&t->queue->vhost->broker->groups, &t->groups->watches[i],
			   &former[i]);
	mem_free(former);
}

static void widen(struct topic_group *g, unsigned had)
{
	unsigned width = group_width(g);

	g->claims = mem_realloc(g->claims, width * sizeof(*g->claims));
	g->committed = mem_realloc(g->committed, width * sizeof(*g->committed));
	for (unsigned i = had; i < width; i++) {
		g->claims[i] = NULL;
		g->committed[i] = GROUP_UNKNOWN;
	}
}

/* A message that is the first of a new partition is read by all. */
static void give_new(struct topic_group *g, unsigned had)
{
	if (g->name && g->member_count > 0) {
		share_partitions(g);
		tell_members(g);
	} else if (g->member_count > 0) {
		give_all(g, TAILQ_FIRST(&g->members));
	}
	for (unsigned i = had; g->pull_count > 0 && g->only < 0 && i < group_width(g);
	     i++)
		group_wake(group_open_claim(g, i));
}

void group_widen_all(struct topic *t, unsigned had)
{
	struct group_set *set = t->groups;
	struct topic_group *g, *next;

	if (!set)
		return;
	widen_watches(t, had);
	HASH_ITER (hh, set->by_name, g, next)
		widen(g, had);
	TAILQ_FOREACH (g, &set->readers, link)
		widen(g, had);
	HASH_ITER (hh, set->by_name, g, next)
		give_new(g, had);
	TAILQ_FOREACH (g, &set->readers, link)
		give_new(g, had);
}
