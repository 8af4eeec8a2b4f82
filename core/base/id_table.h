/* id_table.h: what has which id: a hash table from 64-bit ids to pointers.
 *
 * It grows and shrinks a bucket at a time (linear hashing): no change takes long, however
 * much is in it. A zeroed table is empty. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* About what an item costs, its part of the table and of malloc included. */
#define ID_TABLE_ITEM_BYTES 48

struct id_item;

struct id_table {
	struct id_item ***segments; /* of buckets; NULL while it is empty */
	size_t segment_cap;
	size_t buckets;
	size_t count;
};

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
