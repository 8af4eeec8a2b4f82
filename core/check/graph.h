/* graph.h: a directed graph of numbered nodes, and its circles. */
#ifndef TIDE_CHECK_GRAPH_H
#define TIDE_CHECK_GRAPH_H

#include <stddef.h>

struct graph;

struct graph *graph_create(size_t node_count);
void graph_destroy(struct graph *g);

void graph_link(struct graph *g, size_t from, size_t to);

/* @param way  the nodes of a circle in their order, each once; good during the call */
typedef void graph_circle_fn(void *ctx, const size_t *way, size_t count);

/* Calls `on_circle` for one circle of each group of nodes that lead to each other, and
 * for further ones; at most once a node. Takes time in proportion to nodes and links;
 * memory, not the stack, holds the way. Once for a graph. */
void graph_each_circle(struct graph *g, graph_circle_fn *on_circle, void *ctx);

#endif
