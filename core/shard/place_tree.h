/* place_tree.h: entries by their places, wherever else they are: 40 bytes each. */
#pragma once

#include <bsd/sys/tree.h>

#include "window.h"

struct place_node {
	RB_ENTRY(place_node) node;
	struct entry *entry;
};

RB_HEAD(place_node_tree, place_node);

struct place_tree {
	struct place_node_tree nodes;
	struct pool pool;
};

void place_tree_init(struct place_tree *t);
void place_tree_deinit(struct place_tree *t);
/* By rank and id, which stay while it is in the tree. */
void place_tree_add(struct place_tree *t, struct entry *e);
void place_tree_remove(struct place_tree *t, struct entry *e);
/* The first one at or behind a place; NULL when there is none. */
struct entry *place_tree_seek(const struct place_tree *t, struct place from);
/* NULL when it is empty. */
struct entry *place_tree_last(const struct place_tree *t);
