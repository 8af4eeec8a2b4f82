#include "place_tree.h"

static int compare(const struct place_node *a, const struct place_node *b)
{
	struct place x = { a->entry->rank, a->entry->id },
		     y = { b->entry->rank, b->entry->id };

	return place_is_before(y, x) - place_is_before(x, y);
}

RB_GENERATE_INTERNAL(place_node_tree, place_node, node, compare,
		     static __attribute__((unused)))

void place_tree_init(struct place_tree *t)
{
	RB_INIT(&t->nodes);
	pool_init(&t->pool, sizeof(struct place_node), 256);
}

void place_tree_deinit(struct place_tree *t)
{
	pool_deinit(&t->pool);
}

void place_tree_add(struct place_tree *t, struct entry *e)
{
	struct place_node *n = pool_take(&t->pool);

	n->entry = e;
	RB_INSERT(place_node_tree, &t->nodes, n);
}

void place_tree_remove(struct place_tree *t, struct entry *e)
{
	struct place_node wanted = { .entry = e };
	struct place_node *n = RB_FIND(place_node_tree, &t->nodes, &wanted);

	RB_REMOVE(place_node_tree, &t->nodes, n);
	pool_give(&t->pool, n);
}

struct entry *place_tree_seek(const struct place_tree *t, struct place from)
{
	struct entry place = { .rank = from.score, .id = from.id };
	struct place_node wanted = { .entry = &place };
	struct place_node *n =
		RB_NFIND(place_node_tree, (struct place_node_tree *)&t->nodes, &wanted);

	return n ? n->entry : NULL;
}

struct entry *place_tree_last(const struct place_tree *t)
{
	struct place_node *n =
		RB_MAX(place_node_tree, (struct place_node_tree *)&t->nodes);

	return n ? n->entry : NULL;
}
