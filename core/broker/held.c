#include "held.h"

#include "../base/mem.h"

void held_init(struct held *h)
{
	*h = (struct held){ 0 };
}

void held_deinit(struct held *h)
{
	mem_free(h->items);
	*h = (struct held){ 0 };
}

static void make_room(struct held *h)
{
	size_t to = 0;

	if (h->count > h->cap / 2 || h->cap == 0) {
		h->cap = h->cap ? h->cap * 2 : 16;
		h->items = mem_realloc(h->items, h->cap * sizeof(*h->items));
	}
	for (size_t i = h->start; i < h->end; i++)
		if (h->items[i].entry)
			h->items[to++] = h->items[i];
	h->start = 0;
	h->end = to;
}

uint64_t held_add(struct held *h, struct entry *e)
{
	if (h->end == h->cap)
		make_room(h);
	e->tag = ++h->last_tag;
	h->items[h->end++] = (struct held_item){ e->tag, e };
	h->count++;
	return e->tag;
}

/* The index of the first item whose tag is at least `tag`. */
static size_t lower_bound(const struct held *h, uint64_t tag)
{
	size_t low = h->start, high = h->end;

	/* Without gaps squeezed out, the place follows from the tag. */
	if (low < high && tag >= h->items[low].tag) {
		uint64_t guess = low + (tag - h->items[low].tag);

		if (guess < high && h->items[guess].tag == tag)
			return (size_t)guess;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (h->items[middle].tag < tag)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct entry *held_find(const struct held *h, uint64_t tag)
{
	size_t i = lower_bound(h, tag);

	return i < h->end && h->items[i].tag == tag ? h->items[i].entry : NULL;
}

struct entry *held_from(const struct held *h, uint64_t tag)
{
	for (size_t i = lower_bound(h, tag); i < h->end; i++)
		if (h->items[i].entry)
			return h->items[i].entry;
	return NULL;
}

void held_remove(struct held *h, uint64_t tag)
{
	size_t i = lower_bound(h, tag);

	if (i == h->end || h->items[i].tag != tag || !h->items[i].entry)
		return;
	h->items[i].entry = NULL;
	h->count--;
	while (h->start < h->end && !h->items[h->start].entry)
		h->start++;
	if (h->start == h->end)
		h->start = h->end = 0;
}
