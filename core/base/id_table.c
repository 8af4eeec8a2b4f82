#include "id_table.h"

#include "mem.h"

/* A hash table that grows and shrinks a bucket at a time (linear hashing).
 *
 * No change takes long, however much is in it: doubling a table of millions of items
 * would stop the loop for longer than a turn may take. Items are the caller's, who begins
 * each with a struct growing_item. A zeroed table is empty. */

#define SEGMENT_BUCKETS 64 /* half a kilobyte: there may be many small tables */
#define SEGMENTS_FIRST 4

/* The largest power of two that is not above `n`. */
static size_t floor_power(size_t n)
{
	return (size_t)1 << (63 - __builtin_clzll(n));
}

static struct growing_item **bucket_at(const struct growing *t, size_t i)
{
	return &t->segments[i / SEGMENT_BUCKETS][i % SEGMENT_BUCKETS];
}

/* Buckets that have been split already are told apart by one more bit. */
static struct growing_item **bucket_of(const struct growing *t, size_t hash)
{
	size_t whole = floor_power(t->buckets);
	size_t i = hash & (2 * whole - 1);

	return bucket_at(t, i < t->buckets ? i : i - whole);
}

static void put_item(struct growing *t, struct growing_item *item, size_t hash)
{
	struct growing_item **at = bucket_of(t, hash);

	item->chain = *at;
	*at = item;
}

/* Put the items of a chain where they belong now. */
static void put_chain(struct growing *t, struct growing_item **chain,
		      growing_hash_fn hash_of)
{
	struct growing_item *item = *chain, *next;

	for (*chain = NULL; item; item = next) {
		next = item->chain;
		put_item(t, item, hash_of(item));
	}
}

/* One bucket more: what belongs there leaves the one that it is split from. */
static void add_bucket(struct growing *t, growing_hash_fn hash_of)
{
	size_t n = t->buckets / SEGMENT_BUCKETS;

	if (t->buckets % SEGMENT_BUCKETS == 0) {
		MEM_GROW(t->segments, n, t->segment_cap, SEGMENTS_FIRST);
		t->segments[n] = mem_zalloc(SEGMENT_BUCKETS * sizeof(**t->segments));
	}
	if (t->buckets == 0) {
		t->buckets = SEGMENT_BUCKETS;
		return;
	}
	t->buckets++;
	put_chain(t, bucket_at(t, t->buckets - 1 - floor_power(t->buckets - 1)), hash_of);
}

/* One bucket less: it is none of the first. */
static void drop_bucket(struct growing *t, growing_hash_fn hash_of)
{
	t->buckets--;
	put_chain(t, bucket_at(t, t->buckets), hash_of);
	if (t->buckets % SEGMENT_BUCKETS == 0)
		mem_free(t->segments[t->buckets / SEGMENT_BUCKETS]);
}

struct growing_item *growing_first(const struct growing *t, size_t hash)
{
	return t->count ? *bucket_of(t, hash) : NULL;
}

void growing_add(struct growing *t, struct growing_item *item, growing_hash_fn hash_of)
{
	if (t->count >= t->buckets)
		add_bucket(t, hash_of);
	put_item(t, item, hash_of(item));
	t->count++;
}

void growing_remove(struct growing *t, struct growing_item *item, growing_hash_fn hash_of)
{
	struct growing_item **at = bucket_of(t, hash_of(item));

	while (*at != item)
		at = &(*at)->chain;
	*at = item->chain;
	t->count--;
	if (t->count == 0) {
		for (size_t i = 0; i < t->buckets; i += SEGMENT_BUCKETS)
			mem_free(t->segments[i / SEGMENT_BUCKETS]);
		mem_free(t->segments);
		*t = (struct growing){ 0 };
	} else if (t->count < t->buckets / 2 && t->buckets > SEGMENT_BUCKETS) {
		drop_bucket(t, hash_of);
	}
}

static struct growing_item *growing_any(struct growing *t, growing_hash_fn hash_of)
{
	/* From the end: buckets that are empty go. */
	while (t->buckets > SEGMENT_BUCKETS && !*bucket_at(t, t->buckets - 1))
		drop_bucket(t, hash_of);
	for (size_t i = t->buckets; i > 0; i--)
		if (*bucket_at(t, i - 1))
			return *bucket_at(t, i - 1);
	return NULL;
}

struct id_item {
	struct growing_item item; /* the first member */
	uint64_t id;
	void *what;
};

/* Ids count up in steps: the multiplication spreads them over the upper bits. */
static size_t hash_id(uint64_t id)
{
	return (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 20);
}

static size_t hash_item(const struct growing_item *item)
{
	return hash_id(((const struct id_item *)item)->id);
}

static struct id_item *find_item(const struct id_table *t, uint64_t id)
{
	struct growing_item *i = growing_first(&t->items, hash_id(id));

	while (i && ((struct id_item *)i)->id != id)
		i = i->chain;
	return (struct id_item *)i;
}

static void *take_item(struct id_table *t, struct id_item *item)
{
	void *what = item ? item->what : NULL;

	if (item)
		growing_remove(&t->items, &item->item, hash_item);
	mem_free(item);
	return what;
}

void *id_table_find(const struct id_table *t, uint64_t id)
{
	struct id_item *item = find_item(t, id);

	return item ? item->what : NULL;
}

void id_table_add(struct id_table *t, uint64_t id, void *what)
{
	struct id_item *item = mem_alloc(sizeof(*item));

	*item = (struct id_item){ .id = id, .what = what };
	growing_add(&t->items, &item->item, hash_item);
}

void id_table_remove(struct id_table *t, uint64_t id)
{
	take_item(t, find_item(t, id));
}

void *id_table_take(struct id_table *t)
{
	return take_item(t, (struct id_item *)growing_any(&t->items, hash_item));
}

void id_table_deinit(struct id_table *t)
{
	while (id_table_take(t))
		;
}
