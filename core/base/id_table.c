#include "id_table.h"

#include "mem.h"

#define SEGMENT_BUCKETS 64
#define SEGMENTS_FIRST 4

struct id_item {
	struct id_item *chain; /* the next of its bucket */
	uint64_t id;
	void *what;
};

/* Ids count up in steps: the multiplication spreads them over the upper bits. */
static size_t hash(uint64_t id)
{
	return (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 20);
}

/* The largest power of two that is not above `n`. */
static size_t floor_power(size_t n)
{
	return (size_t)1 << (63 - __builtin_clzll(n));
}

static struct id_item **bucket(const struct id_table *t, size_t i)
{
	return &t->segments[i / SEGMENT_BUCKETS][i % SEGMENT_BUCKETS];
}

/* Buckets that have been split already are told apart by one more bit. */
static struct id_item **bucket_of(const struct id_table *t, uint64_t id)
{
	size_t whole = floor_power(t->buckets);
	size_t i = hash(id) & (2 * whole - 1);

	return bucket(t, i < t->buckets ? i : i - whole);
}

static void put_chain(struct id_table *t, struct id_item **chain)
{
	struct id_item *item = *chain, *next;

	for (*chain = NULL; item; item = next) {
		struct id_item **at = bucket_of(t, item->id);

		next = item->chain;
		item->chain = *at;
		*at = item;
	}
}

static void add_segment(struct id_table *t)
{
	size_t n = t->buckets / SEGMENT_BUCKETS;

	MEM_GROW(t->segments, n, t->segment_cap, SEGMENTS_FIRST);
	t->segments[n] = mem_zalloc(SEGMENT_BUCKETS * sizeof(**t->segments));
}

/* One bucket more: what belongs there leaves the one that it is split from. */
static void grow(struct id_table *t)
{
	if (t->buckets % SEGMENT_BUCKETS == 0)
		add_segment(t);
	if (t->buckets == 0) {
		t->buckets = SEGMENT_BUCKETS;
		return;
	}
	t->buckets++;
	put_chain(t, bucket(t, t->buckets - 1 - floor_power(t->buckets - 1)));
}

static void free_buckets(struct id_table *t)
{
	for (size_t i = 0; i < t->buckets; i += SEGMENT_BUCKETS)
		mem_free(t->segments[i / SEGMENT_BUCKETS]);
	mem_free(t->segments);
	*t = (struct id_table){ 0 };
}

/* One bucket less: it is none of the first. */
static void drop_bucket(struct id_table *t)
{
	t->buckets--;
	put_chain(t, bucket(t, t->buckets));
	if (t->buckets % SEGMENT_BUCKETS == 0)
		mem_free(t->segments[t->buckets / SEGMENT_BUCKETS]);
}

static void shrink(struct id_table *t)
{
	if (t->count == 0)
		free_buckets(t);
	else if (t->count < t->buckets / 2 && t->buckets > SEGMENT_BUCKETS)
		drop_bucket(t);
}

/* Where the item is linked; it points to NULL when there is none. */
static struct id_item **find_link(const struct id_table *t, uint64_t id)
{
	struct id_item **at = bucket_of(t, id);

	while (*at && (*at)->id != id)
		at = &(*at)->chain;
	return at;
}

void *id_table_find(const struct id_table *t, uint64_t id)
{
	struct id_item *item = t->count ? *find_link(t, id) : NULL;

	return item ? item->what : NULL;
}

void id_table_add(struct id_table *t, uint64_t id, void *what)
{
	struct id_item *item = mem_alloc(sizeof(*item));
	struct id_item **at;

	if (t->count >= t->buckets)
		grow(t);
	at = bucket_of(t, id);
	*item = (struct id_item){ *at, id, what };
	*at = item;
	t->count++;
}

static void *unlink_item(struct id_table *t, struct id_item **at)
{
	struct id_item *item = *at;
	void *what = item->what;

	*at = item->chain;
	mem_free(item);
	t->count--;
	shrink(t);
	return what;
}

void id_table_remove(struct id_table *t, uint64_t id)
{
	struct id_item **at = t->count ? find_link(t, id) : NULL;

	if (at && *at)
		unlink_item(t, at);
}

void *id_table_take(struct id_table *t)
{
	/* From the end: buckets that are empty go. */
	while (t->buckets > SEGMENT_BUCKETS && !*bucket(t, t->buckets - 1))
		drop_bucket(t);
	for (size_t i = t->buckets; i > 0; i--)
		if (*bucket(t, i - 1))
			return unlink_item(t, bucket(t, i - 1));
	return NULL;
}

void id_table_deinit(struct id_table *t)
{
	while (id_table_take(t))
		;
}
