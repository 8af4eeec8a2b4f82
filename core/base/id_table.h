/* id_table.h: what has which id: a hash table from 64-bit ids to pointers.
 *
 * No change takes long, however much is in it (growing.h). A zeroed table is empty. */
#pragma once

#include <stdint.h>

#include "growing.h"

/* About what an item costs, its part of the table and of malloc included. */
#define ID_TABLE_ITEM_BYTES 48

struct id_table {
	struct growing items;
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
