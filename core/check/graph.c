#include "graph.h"

#include "base/mem.h"

void graph_deinit(struct graph *g)
{
	struct graph_node *n, *next;

	HASH_ITER (hh, g->nodes, n, next) {
		HASH_DEL(g->nodes, n);
		mem_free(n->links);
		mem_free(n);
	}
	mem_free(g->way);
}

static struct graph_node *node_of(struct graph *g, const char *name)
{
	struct graph_node *n;

	HASH_FIND_STR(g->nodes, name, n);
	if (n)
		return n;
	n = mem_zalloc(sizeof(*n));
	n->name = name;
	HASH_ADD_KEYPTR(hh, g->nodes, name, strlen(name), n);
	return n;
}

void graph_link(struct graph *g, const char *from, const char *to)
{
	struct graph_node *n = node_of(g, from);

	MEM_GROW(n->links, n->count, n->cap, 4);
	n->links[n->count++] = node_of(g, to);
}

static void enter(struct graph *g, struct graph_node *n)
{
	n->state = ON_WAY;
	n->place = g->way_len;
	g->way[g->way_len++] = n;
}

/* Depth first. A link back to a node on the way closes a circle. */
static void walk_from(struct graph *g, struct graph_node *start,
		      graph_circle_fn *on_circle, void *ctx)
{
	enter(g, start);
	while (g->way_len > 0) {
		struct graph_node *last = g->way[g->way_len - 1], *next;

		if (last->at == last->count) {
			last->state = DONE;
			g->way_len--;
			continue;
		}
		next = last->links[last->at++];
		if (next->state == UNSEEN) {
			enter(g, next);
		} else if (next->state == ON_WAY && !next->is_reported) {
			next->is_reported = true;
			on_circle(ctx, &g->way[next->place], g->way_len - next->place);
		}
	}
}

static int by_name(const struct graph_node *a, const struct graph_node *b)
{
	return strcmp(a->name, b->name);
}

void graph_each_circle(struct graph *g, graph_circle_fn *on_circle, void *ctx)
{
	HASH_SORT(g->nodes, by_name);
	g->way = mem_alloc((HASH_COUNT(g->nodes) + 1) * sizeof(struct graph_node *));
	for (struct graph_node *n = g->nodes; n; n = n->hh.next)
		if (n->state == UNSEEN)
			walk_from(g, n, on_circle, ctx);
}
