/* id_table.h: what has which id: a hash table from 64-bit ids to pointers.
 *
 * It grows bit by bit: while it moves into a larger array, each change carries a few
 * items over. So no change takes long, however much is in it. A zeroed table is empty. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct id_slot {
	uint64_t id;
	void *what; /* NULL: the slot is free */
};

struct id_array {
	struct id_slot *slots;
	size_t mask; /* the number of slots less one */
	size_t count;
};

struct id_table {
	struct id_array now;
	struct id_array old; /* without slots: nothing is being moved */
	size_t moved;        /* slots of `old` that are free for certain */
};

void id_table_deinit(struct id_table *t);
static inline size_t id_table_count(const struct id_table *t)
{
	return t->now.count + t->old.count;
}
/* NULL when there is none. */
void *id_table_find(const struct id_table *t, uint64_t id);
/* The id must not be in it; `what` is not NULL. */
void id_table_add(struct id_table *t, uint64_t id, void *what);
/* Harmless when it is not there. */
void id_table_remove(struct id_table *t, uint64_t id);
