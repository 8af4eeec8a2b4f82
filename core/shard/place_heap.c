#include "place_heap.h"

#include "base/mem.h"

void place_heap_deinit(struct place_heap *h)
{
	mem_free(h->places);
	*h = (struct place_heap){ 0 };
}

static void sift_up(struct place_heap *h, size_t i)
{
	struct place p = h->places[i];

	for (; i > 0 && place_is_before(p, h->places[(i - 1) / 2]); i = (i - 1) / 2)
		h->places[i] = h->places[(i - 1) / 2];
	h->places[i] = p;
}

static void sift_down(struct place_heap *h, size_t i)
{
	struct place p = h->places[i];
	size_t child;

	for (; (child = 2 * i + 1) < h->count; i = child) {
		if (child + 1 < h->count &&
		    place_is_before(h->places[child + 1], h->places[child]))
			child++;
		if (!place_is_before(h->places[child], p))
			break;
		h->places[i] = h->places[child];
	}
	h->places[i] = p;
}

/* Memory follows what is needed, down as well as up. */
static void resize(struct place_heap *h, size_t cap)
{
	h->cap = cap;
	h->places = mem_realloc(h->places, cap * sizeof(*h->places));
}

static void shrink(struct place_heap *h)
{
	if (h->count == 0)
		place_heap_deinit(h);
	else if (h->cap > 64 && h->count < h->cap / 4)
		resize(h, h->cap / 2);
}

void place_heap_push(struct place_heap *h, struct place p)
{
	if (h->count == h->cap)
		resize(h, h->cap ? h->cap + h->cap / 2 : 16);
	h->places[h->count] = p;
	sift_up(h, h->count++);
}

struct place place_heap_take(struct place_heap *h, size_t index)
{
	struct place taken = h->places[index];

	h->places[index] = h->places[--h->count];
	if (index < h->count) {
		sift_up(h, index);
		sift_down(h, index);
	}
	shrink(h);
	return taken;
}

struct place place_heap_pop(struct place_heap *h)
{
	return place_heap_take(h, 0);
}

size_t place_heap_drop(struct place_heap *h, struct place from)
{
	size_t kept = 0, before = h->count;

	for (size_t i = 0; i < before; i++)
		if (place_is_before(h->places[i], from))
			h->places[kept++] = h->places[i];
	h->count = kept;
	for (size_t i = kept / 2; i-- > 0;)
		sift_down(h, i);
	shrink(h);
	return before - kept;
}
