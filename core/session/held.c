#include "held.h"
#include "base/mem.h"
#include "broker/group.h"
#include "broker/queue.h"

void held_init(struct held *h)
{
	*h = (struct held){ 0 };
}

void held_deinit(struct held *h)
{
	mem_free(h->items);
	*h = (struct held){ 0 };
}

#define GAP ((uintptr_t)1 << 1 | 1) /* the next item is the one to go on with */
#define MARK ((uintptr_t)2)         /* beside an entry */

static struct entry *entry_of(const struct held_item *item)
{
	return item->what & 1 ? NULL : (struct entry *)(item->what & ~MARK);
}

static void make_room(struct held *h)
{
	size_t to = 0;

	if (h->count > h->cap / 2 || h->cap == 0) {
		h->cap = h->cap ? h->cap * 2 : 16;
		h->items = mem_realloc(h->items, h->cap * sizeof(*h->items));
	}
	for (size_t i = h->start; i < h->end; i++)
		if (entry_of(&h->items[i]))
			h->items[to++] = h->items[i];
	h->start = 0;
	h->end = to;
}

uint64_t held_add(struct held *h, struct entry *e)
{
	if (h->end == h->cap)
		make_room(h);
	e->tag = ++h->last_tag;
	h->items[h->end++] = (struct held_item){ e->tag, (uintptr_t)e };
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

/* The index of the first item at or behind `i` that is no gap. */
static size_t skip_gaps(const struct held *h, size_t i)
{
	size_t found = i;

	while (found < h->end && h->items[found].what & 1)
		found += h->items[found].what >> 1;
	while (i < found) {
		size_t next = i + (h->items[i].what >> 1);

		h->items[i].what = (found - i) << 1 | 1;
		i = next;
	}
	return found;
}

struct entry *held_from(const struct held *h, uint64_t tag)
{
	size_t i = lower_bound(h, tag);

	if (i < h->end && h->items[i].what & 1)
		i = skip_gaps(h, i);
	return i < h->end ? entry_of(&h->items[i]) : NULL;
}

/* NULL when the tag is not held. */
static struct held_item *find(const struct held *h, uint64_t tag)
{
	size_t i = lower_bound(h, tag);

	if (i == h->end || h->items[i].tag != tag || !entry_of(&h->items[i]))
		return NULL;
	return &h->items[i];
}

void held_mark(struct held *h, uint64_t tag, bool is_marked)
{
	struct held_item *item = find(h, tag);

	if (item)
		item->what = (item->what & ~MARK) | (is_marked ? MARK : 0);
}

bool held_is_marked(const struct held *h, uint64_t tag)
{
	const struct held_item *item = find(h, tag);

	return item && item->what & MARK;
}

struct entry *held_last(const struct held *h)
{
	return h->count ? entry_of(&h->items[h->end - 1]) : NULL;
}

void held_remove(struct held *h, uint64_t tag)
{
	size_t i = lower_bound(h, tag);

	if (i == h->end || h->items[i].tag != tag || !entry_of(&h->items[i]))
		return;
	if (--h->count == 0) {
		h->start = h->end = 0;
		return;
	}
	h->items[i].what = GAP;
	/* Each item is passed once by either end. */
	if (i == h->start)
		while (h->items[++h->start].what & 1)
			;
	else if (i == h->end - 1)
		while (h->items[--h->end - 1].what & 1)
			;
}

static int compare(const struct lapsed_item *a, const struct lapsed_item *b)
{
	return (a->tag > b->tag) - (a->tag < b->tag);
}

RB_GENERATE_INTERNAL(lapsed_tree, lapsed_item, by_tag, compare,
		     static __attribute__((unused)))

void lapsed_init(struct lapsed *l)
{
	*l = (struct lapsed){ .items = RB_INITIALIZER(&l->items) };
}

void lapsed_deinit(struct lapsed *l)
{
	struct lapsed_item *item;

	while ((item = RB_ROOT(&l->items)) != NULL)
		lapsed_remove(l, item);
}

void lapsed_remove(struct lapsed *l, struct lapsed_item *item)
{
	RB_REMOVE(lapsed_tree, &l->items, item);
	l->count--;
	mem_free(item);
}

static void insert(struct lapsed *l, const struct lapsed_item *like, struct slice group)
{
	struct lapsed_item *item = mem_alloc(sizeof(*item) + group.len + 1);

	*item = *like;
	memcpy(item->group, group.data, group.len);
	item->group[group.len] = '\0';
	RB_INSERT(lapsed_tree, &l->items, item);
	if (++l->count > LAPSED_MAX)
		lapsed_remove(l, RB_MIN(lapsed_tree, &l->items));
}

void lapsed_add(struct lapsed *l, const struct lapse *what)
{
	const struct topic_group *g = what->claim ? what->claim->group : NULL;
	struct lapsed_item like = { .queue = what->queue->serial, .id = what->id };

	/* A reader's leases leave no trace. */
	if (g && !g->name)
		return;
	for (uint64_t i = 0; i < what->count && i < LAPSED_MAX; i++) {
		like.tag = what->tag + i;
		like.offset = what->offset + i;
		like.partition = g ? what->claim->index : 0;
		insert(l, &like, g ? (struct slice){ g->name, g->name_len } : SLICE(""));
	}
}

void lapsed_add_done(struct lapsed *l, uint64_t tag)
{
	insert(l, &(struct lapsed_item){ .tag = tag }, SLICE(""));
}

struct lapsed_item *lapsed_from(struct lapsed *l, uint64_t tag)
{
	struct lapsed_item key = { .tag = tag };

	return RB_NFIND(lapsed_tree, &l->items, &key);
}
