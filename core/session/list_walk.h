/* list_walk.h: things of the broker one after the other, over turns of the loop.
 *
 * A place in a table is a pointer for as long as a turn lasts. In between it is the name
 * of the thing there. If that has gone, the walk goes on behind as many things as it has
 * seen. While nothing comes or goes, a walk meets each thing once. */
#pragma once

#include "base/slice.h"

struct service;
struct vhost;

/* Things that lie in one container, in the order in which they came. */
struct list_table {
	void *(*first)(void *container);
	void *(*next)(void *container, void *at);
	/* NULL: places are numbers alone. */
	struct slice (*name)(const void *at);
	void *(*find)(void *container, struct slice name);
};

extern const struct list_table list_walk_queues, list_walk_exchanges, list_walk_locks,
	list_walk_vhosts, list_walk_sessions, list_walk_consumers, list_walk_groups,
	list_walk_bindings, list_walk_members;

struct list_place {
	const struct list_table *table;
	bool has_begun;
	bool is_kept; /* as a name: `at` is not good */
	void *at;     /* NULL: behind the last */
	char *name;   /* owned */
	size_t name_len;
	size_t seen; /* things before it */
};

/* `inner` is a place within what is at `outer`, if its table is not NULL. */
struct list_walk {
	void *container;
	struct list_place outer, inner;
	bool is_single; /* one outer thing, and no other */
};

enum list_step {
	LIST_STEP_ITEM,  /* there is one more */
	LIST_STEP_OUTER, /* all inner ones of this outer one have been met */
	LIST_STEP_END,
};

/* @param inner  NULL: the things of the outer table are what is looked for */
void list_walk_init(struct list_walk *w, void *container, const struct list_table *outer,
		    const struct list_table *inner);
/* Before the first step: only the outer thing of this name, if there is one. */
void list_walk_choose(struct list_walk *w, struct slice name);
void list_walk_deinit(struct list_walk *w);
/* @param item  receives the next thing, or an outer one */
enum list_step list_walk_next(struct list_walk *w, void **item);
/* Things may come and go until the next step. */
void list_walk_keep(struct list_walk *w);
