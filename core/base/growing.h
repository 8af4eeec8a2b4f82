/* growing.h: a hash table that grows and shrinks a bucket at a time (linear hashing).
 *
 * No change takes long, however much is in it: doubling a table of millions of items
 * would stop the loop for longer than a turn may take. Items are the caller's, who begins
 * each with a struct growing_item. A zeroed table is empty. */
#pragma once

#include <stddef.h>

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

/* The first of the bucket of a hash; NULL: the bucket is empty. */
struct growing_item *growing_first(const struct growing *t, size_t hash);
void growing_add(struct growing *t, struct growing_item *item, growing_hash_fn hash_of);
/* The item is in the table. */
void growing_remove(struct growing *t, struct growing_item *item,
		    growing_hash_fn hash_of);
/* Any item; NULL: the table is empty. */
struct growing_item *growing_any(struct growing *t, growing_hash_fn hash_of);
