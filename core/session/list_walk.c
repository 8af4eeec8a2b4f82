#include "list_walk.h"

#include "base/mem.h"
#include "broker/group.h"
#include "broker/lock.h"
#include "session_private.h"

/* A hash table of things with names; `head` is a field of the container. */
#define HASH_TABLE(what, type, owner, head, field, look)                        \
	static void *first_##what(void *container)                              \
	{                                                                       \
		return ((owner *)container)->head;                              \
	}                                                                       \
	static void *next_##what(void *container, void *at)                     \
	{                                                                       \
		return ((type *)at)->field.next;                                \
	}                                                                       \
	static struct slice name_##what(const void *at)                         \
	{                                                                       \
		const type *x = at;                                             \
                                                                                \
		return (struct slice){ x->name, x->name_len };                  \
	}                                                                       \
	static void *find_##what(void *container, struct slice name)            \
	{                                                                       \
		return look(container, name);                                   \
	}                                                                       \
	const struct list_table list_walk_##what = { first_##what, next_##what, \
						     name_##what, find_##what };

static struct lock *lock_of(struct vhost *v, struct slice name)
{
	struct lock *l;

	HASH_FIND(hh, v->locks, name.data, name.len, l);
	return l;
}

HASH_TABLE(queues, struct queue, struct vhost, queues, hh, queue_find)
HASH_TABLE(exchanges, struct exchange, struct vhost, exchanges, hh, exchange_find)
HASH_TABLE(locks, struct lock, struct vhost, locks, hh, lock_of)
HASH_TABLE(vhosts, struct vhost, struct broker, vhosts, hh, vhost_find)

static void *first_session(void *container)
{
	return TAILQ_FIRST(&((struct service *)container)->sessions);
}

static void *next_session(void *container, void *at)
{
	return TAILQ_NEXT((struct session *)at, link);
}

const struct list_table list_walk_sessions = { first_session, next_session, NULL, NULL };

static void *first_member(void *container)
{
	return TAILQ_FIRST(&((struct service *)container)->members);
}

static void *next_member(void *container, void *at)
{
	return TAILQ_NEXT((struct net_member *)at, entry);
}

const struct list_table list_walk_members = { first_member, next_member, NULL, NULL };

static void *first_consumer(void *container)
{
	return TAILQ_FIRST(&((struct queue *)container)->consumers);
}

static void *next_consumer(void *container, void *at)
{
	return TAILQ_NEXT((struct consumer *)at, queue_link);
}

const struct list_table list_walk_consumers = { first_consumer, next_consumer, NULL,
						NULL };

static void *first_group(void *container)
{
	const struct topic *t = ((struct queue *)container)->topic;

	return t && t->groups ? t->groups->by_name : NULL;
}

static void *next_group(void *container, void *at)
{
	return ((struct topic_group *)at)->hh.next;
}

const struct list_table list_walk_groups = { first_group, next_group, NULL, NULL };

static struct binding *binding_from(const struct exchange *x, uint32_t number)
{
	for (; number < x->number_count; number++)
		if (x->bindings[number] && !x->bindings[number]->is_released)
			return x->bindings[number];
	return NULL;
}

static void *first_binding(void *container)
{
	return binding_from(container, 0);
}

static void *next_binding(void *container, void *at)
{
	return binding_from(container, ((struct binding *)at)->number + 1);
}

const struct list_table list_walk_bindings = { first_binding, next_binding, NULL, NULL };

static void reset(struct list_place *p)
{
	mem_free(p->name);
	*p = (struct list_place){ .table = p->table };
}

static void keep(struct list_place *p)
{
	struct slice name;

	if (!p->has_begun || p->is_kept)
		return;
	p->is_kept = true;
	if (!p->at || !p->table->name)
		return;
	name = p->table->name(p->at);
	p->name = mem_strndup(name.data, name.len);
	p->name_len = name.len;
}

static void skip(struct list_place *p, void *container)
{
	p->at = p->table->first(container);
	for (size_t i = 0; p->at && i < p->seen; i++)
		p->at = p->table->next(container, p->at);
}

/* False: what it was at has gone. */
static bool resume(struct list_place *p, void *container)
{
	bool was_there = p->at != NULL;

	p->is_kept = false;
	p->at = p->name ? p->table->find(container,
					 (struct slice){ p->name, p->name_len })
			: NULL;
	mem_free(p->name);
	p->name = NULL;
	if (p->at || !was_there)
		return true;
	skip(p, container);
	return !p->table->name;
}

static void *look(struct list_place *p, void *container)
{
	if (!p->has_begun) {
		p->has_begun = true;
		p->at = p->table->first(container);
	}
	return p->at;
}

static void advance(struct list_place *p, void *container)
{
	p->at = p->table->next(container, p->at);
	p->seen++;
}

void list_walk_init(struct list_walk *w, void *container, const struct list_table *outer,
		    const struct list_table *inner)
{
	*w = (struct list_walk){ .container = container,
				 .outer.table = outer,
				 .inner.table = inner };
}

void list_walk_choose(struct list_walk *w, struct slice name)
{
	w->is_single = true;
	w->outer.has_begun = true;
	w->outer.at = w->outer.table->find(w->container, name);
}

static void leave_outer(struct list_walk *w)
{
	if (w->is_single)
		w->outer.at = NULL;
	else
		advance(&w->outer, w->container);
}

void list_walk_deinit(struct list_walk *w)
{
	mem_free(w->outer.name);
	mem_free(w->inner.name);
}

enum list_step list_walk_next(struct list_walk *w, void **item)
{
	if (w->outer.is_kept && !resume(&w->outer, w->container)) {
		reset(&w->inner);
		if (w->is_single)
			w->outer.at = NULL;
	}
	*item = look(&w->outer, w->container);
	if (!*item)
		return LIST_STEP_END;
	if (w->inner.table) {
		void *outer = *item;

		if (w->inner.is_kept)
			(void)resume(&w->inner, outer);
		*item = look(&w->inner, outer);
		if (*item) {
			advance(&w->inner, outer);
			return LIST_STEP_ITEM;
		}
		*item = outer;
		reset(&w->inner);
		leave_outer(w);
		return LIST_STEP_OUTER;
	}
	leave_outer(w);
	return LIST_STEP_ITEM;
}

void list_walk_keep(struct list_walk *w)
{
	keep(&w->outer);
	if (w->inner.table)
		keep(&w->inner);
}
