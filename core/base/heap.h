/* heap.h: an intrusive binary min-heap by an int64 key, mostly a time.
 *
 * A node belongs to its owner and is in one heap at most; `index` is
 * HEAP_NONE while it is in none. Equal keys come in no particular order. */
#ifndef TIDE_BASE_HEAP_H
#define TIDE_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_NONE ((size_t)-1)

struct heap_node {
	int64_t key;
	size_t index;
};

struct heap {
	struct heap_node **nodes;
	size_t count;
	size_t cap;
};

void heap_init(struct heap *h);
void heap_deinit(struct heap *h);
void heap_node_init(struct heap_node *n);

static inline bool heap_has(const struct heap_node *n)
{
	return n->index != HEAP_NONE;
}

/* The node with the least key, NULL when the heap is empty. */
struct heap_node *heap_min(const struct heap *h);
/* Insert the node, or move it when it is in the heap already. */
void heap_set(struct heap *h, struct heap_node *n, int64_t key);
/* Take the node out; harmless when it is not in. */
void heap_remove(struct heap *h, struct heap_node *n);

#endif
