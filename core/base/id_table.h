/* id_table.h: what has which id: a hash table from 64-bit ids to pointers.
 *
 * No change takes long, however much is in it (growing.h). A zeroed table is empty. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct growing_item {
	struct growing_item *chain; /* the next of its bucket */
};

/* The hash of an item that is in the table. */
typedef size_t (*growing_hash_fn)(const struct growing_item *item);

struct growing {
	struct growing_item ***segments; /* of buckets; NULL while it is empty */
	size_t segment_cap;
	size_t buckets;
	size_t count;
};

/* About what an item costs, its part of the table and of malloc included. */
#define ID_TABLE_ITEM_BYTES 48

struct id_table {
	struct growing items;
};

/* The first of the bucket of a hash; NULL: the bucket is empty. */
struct growing_item *growing_first(const struct growing *t, size_t hash);
void growing_add(struct growing *t, struct growing_item *item, growing_hash_fn hash_of);
/* The item is in the table. */
void growing_remove(struct growing *t, struct growing_item *item,
		    growing_hash_fn hash_of);

/* Takes a time that depends on how much is in it. */
void id_table_deinit(struct id_table *t);
/* NULL when there is none. */
void *id_table_find(const struct id_table *t, uint64_t id);
/* The id must not be in it; `what` is not NULL. */
void id_table_add(struct id_table *t, uint64_t id, void *what);
/* Harmless when it is not there. */
void id_table_remove(struct id_table *t, uint64_t id);
/* Take any one out; its `what`, or NULL when none is left. */
void *id_table_take(struct id_table *t);
