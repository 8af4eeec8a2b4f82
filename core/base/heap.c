#include "heap.h"

#include "mem.h"

void heap_deinit(struct heap *h)
{
	for (size_t i = 1; i <= h->count; i++)
		h->nodes[i]->index = 0;
	mem_free(h->nodes);
	*h = (struct heap){ 0 };
}

static void place(struct heap *h, struct heap_node *n, size_t index)
{
	h->nodes[index] = n;
	n->index = index;
}

/* Both move `n` from its index to where its key belongs; at most one of them
 * moves it at all. */
static void sift_up(struct heap *h, struct heap_node *n)
{
	size_t i = n->index;

	for (; i > 1 && h->nodes[i / 2]->key > n->key; i /= 2)
		place(h, h->nodes[i / 2], i);
	place(h, n, i);
}

static void sift_down(struct heap *h, struct heap_node *n)
{
	size_t i = n->index, child;

	for (; (child = 2 * i) <= h->count; i = child) {
		if (child < h->count && h->nodes[child + 1]->key < h->nodes[child]->key)
			child++;
		if (n->key <= h->nodes[child]->key)
			break;
		place(h, h->nodes[child], i);
	}
	place(h, n, i);
}

void heap_set(struct heap *h, struct heap_node *n, int64_t key)
{
	n->key = key;
	if (!heap_has(n)) {
		MEM_GROW(h->nodes, h->count + 1, h->cap, 16);
		place(h, n, ++h->count);
	}
	sift_up(h, n);
	sift_down(h, n);
}

void heap_set_all(struct heap *h, int64_t key)
{
	for (size_t i = 1; i <= h->count; i++)
		h->nodes[i]->key = key;
}

void heap_remove(struct heap *h, struct heap_node *n)
{
	if (!heap_has(n))
		return;
	struct heap_node *last = h->nodes[h->count--];
	if (last != n) {
		place(h, last, n->index);
		sift_up(h, last);
		sift_down(h, last);
	}
	n->index = 0;
}
