#include "lapsed.h"

#include "base/mem.h"
#include "broker/group.h"
#include "broker/queue.h"

static int compare(const struct lapsed_item *a, const struct lapsed_item *b)
{
	return (a->tag > b->tag) - (a->tag < b->tag);
}

RB_GENERATE_INTERNAL(lapsed_tree, lapsed_item, by_tag, compare,
		     static __attribute__((unused)))

void lapsed_init(struct lapsed *l)
{
	*l = (struct lapsed){ .items = RB_INITIALIZER(&l->items) };
}

void lapsed_deinit(struct lapsed *l)
{
	struct lapsed_item *item;

	while ((item = RB_ROOT(&l->items)) != NULL)
		lapsed_remove(l, item);
}

void lapsed_remove(struct lapsed *l, struct lapsed_item *item)
{
	RB_REMOVE(lapsed_tree, &l->items, item);
	l->count--;
	mem_free(item);
}

static void insert(struct lapsed *l, const struct lapsed_item *like, struct slice group)
{
	struct lapsed_item *item = mem_alloc(sizeof(*item) + group.len + 1);

	*item = *like;
	memcpy(item->group, group.data, group.len);
	item->group[group.len] = '\0';
	RB_INSERT(lapsed_tree, &l->items, item);
	if (++l->count > LAPSED_MAX)
		lapsed_remove(l, RB_MIN(lapsed_tree, &l->items));
}

void lapsed_add(struct lapsed *l, const struct lapse *what)
{
	const struct topic_group *g = what->claim ? what->claim->group : NULL;
	struct lapsed_item like = { .queue = what->queue->serial, .id = what->id };

	/* Nothing is kept of what a reader has done. */
	if (g && !g->name)
		return;
	for (uint64_t i = 0; i < what->count && i < LAPSED_MAX; i++) {
		like.tag = what->tag + i;
		like.offset = what->offset + i;
		like.partition = g ? what->claim->index : 0;
		insert(l, &like, g ? (struct slice){ g->name, g->name_len } : SLICE(""));
	}
}

void lapsed_add_done(struct lapsed *l, uint64_t tag)
{
	insert(l, &(struct lapsed_item){ .tag = tag }, SLICE(""));
}

struct lapsed_item *lapsed_from(struct lapsed *l, uint64_t tag)
{
	struct lapsed_item key = { .tag = tag };

	return RB_NFIND(lapsed_tree, &l->items, &key);
}
