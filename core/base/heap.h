/* heap.h: an intrusive binary min-heap by an int64 key, mostly a time.
 *
 * A node belongs to its owner and is in one heap at most. A zeroed heap is empty, and a
 * zeroed node is in none. Equal keys come in no particular order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	int64_t key;
	size_t index; /* from 1 on; 0 = in no heap */
};

struct heap {
	struct heap_node **nodes; /* nodes[0] is not used */
	size_t count;
	size_t cap;
};

void heap_deinit(struct heap *h);

static inline bool heap_has(const struct heap_node *n)
{
	return n->index > 0;
}

/* The earlier of two keys that are times, where 0 is none. */
static inline int64_t heap_earlier(int64_t a, int64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* The node with the least key, NULL when the heap is empty. */
static inline struct heap_node *heap_min(const struct heap *h)
{
	return h->count > 0 ? h->nodes[1] : NULL;
}
/* Insert the node, or move it when it is in the heap already. */
void heap_set(struct heap *h, struct heap_node *n, int64_t key);
/* Give every node the same key. */
void heap_set_all(struct heap *h, int64_t key);
/* Take the node out; harmless when it is not in. */
void heap_remove(struct heap *h, struct heap_node *n);
