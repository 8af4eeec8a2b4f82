/* place_heap.h: places of messages, the first of them on top: 16 bytes each. */
#pragma once

#include "window.h"

struct place_heap {
	struct place *places;
	size_t count, cap;
};

void place_heap_deinit(struct place_heap *h);
/* The heap is not empty. */
static inline struct place place_heap_top(const struct place_heap *h)
{
	return h->places[0];
}
/* In O(1) when it is the last one in the order. */
void place_heap_push(struct place_heap *h, struct place p);
struct place place_heap_pop(struct place_heap *h);
struct place place_heap_take(struct place_heap *h, size_t index);
/* Drop those that are not before the place; returns how many. */
size_t place_heap_drop(struct place_heap *h, struct place from);
