#include "id_table.h"

#include "mem.h"

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
