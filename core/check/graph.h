/* graph.h: a directed graph of named nodes, and its circles. */
#pragma once

#include <stdbool.h>

#include "base/table.h"

struct graph_node {
	const char *name;
	/* The rest is the graph's own. */
	UT_hash_handle hh;
	struct graph_node **links;
	size_t count, cap;
	size_t at;    /* the next link to follow */
	size_t place; /* on the way */
	enum { UNSEEN, ON_WAY, DONE } state;
	bool is_reported; /* a circle that ends here */
};

/* All zero when it is empty. */
struct graph {
	struct graph_node *nodes;
	struct graph_node **way;
	size_t way_len;
};

void graph_deinit(struct graph *g);

/* The names outlive the graph. */
void graph_link(struct graph *g, const char *from, const char *to);

/* @param way  the nodes of a circle in their order, each once; good during the call */
typedef void graph_circle_fn(void *ctx, struct graph_node *const *way, size_t count);

/* Calls `on_circle` for one circle of each group of nodes that lead to each other, and
 * for further ones; at most once a node. Starts at the first name in the alphabet. Takes
 * time in proportion to nodes and links; memory, not the stack, holds the way. Once for
 * a graph. */
void graph_each_circle(struct graph *g, graph_circle_fn *on_circle, void *ctx);
