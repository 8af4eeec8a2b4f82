#include "graph.h"

#include <stdbool.h>

#include "base/mem.h"

struct node {
	size_t *links;
	size_t count, cap;
	size_t at;    /* the next link to follow */
	size_t place; /* on the way */
	enum { UNSEEN, ON_WAY, DONE } state;
	bool is_reported; /* a circle that ends here */
};

struct graph {
	size_t count;
	size_t *way;
	size_t way_len;
	struct node nodes[];
};

struct graph *graph_create(size_t node_count)
{
	struct graph *g = mem_zalloc(sizeof(*g) + node_count * sizeof(g->nodes[0]));

	g->count = node_count;
	g->way = mem_alloc((node_count + 1) * sizeof(*g->way));
	return g;
}

void graph_destroy(struct graph *g)
{
	for (size_t i = 0; i < g->count; i++)
		mem_free(g->nodes[i].links);
	mem_free(g->way);
	mem_free(g);
}

void graph_link(struct graph *g, size_t from, size_t to)
{
	struct node *n = &g->nodes[from];

	if (n->count == n->cap) {
		n->cap = n->cap * 2 + 4;
		n->links = mem_realloc(n->links, n->cap * sizeof(*n->links));
	}
	n->links[n->count++] = to;
}

static void enter(struct graph *g, size_t number)
{
	g->nodes[number].state = ON_WAY;
	g->nodes[number].place = g->way_len;
	g->way[g->way_len++] = number;
}

/* Depth first. A link back to a node on the way closes a circle. */
static void walk_from(struct graph *g, size_t start, graph_circle_fn *on_circle,
		      void *ctx)
{
	enter(g, start);
	while (g->way_len > 0) {
		struct node *last = &g->nodes[g->way[g->way_len - 1]];
		struct node *next;

		if (last->at == last->count) {
			last->state = DONE;
			g->way_len--;
			continue;
		}
		next = &g->nodes[last->links[last->at++]];
		if (next->state == UNSEEN) {
			enter(g, (size_t)(next - g->nodes));
		} else if (next->state == ON_WAY && !next->is_reported) {
			next->is_reported = true;
			on_circle(ctx, &g->way[next->place], g->way_len - next->place);
		}
	}
}

void graph_each_circle(struct graph *g, graph_circle_fn *on_circle, void *ctx)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->nodes[i].state == UNSEEN)
			walk_from(g, i, on_circle, ctx);
}
