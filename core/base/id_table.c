#include "id_table.h"

#include "mem.h"

#define SLOTS_MIN 64
#define MOVE_STEP 8 /* slots; 3 would be enough to end before the new array is full */

void id_table_deinit(struct id_table *t)
{
	mem_free(t->now.slots);
	mem_free(t->old.slots);
	*t = (struct id_table){ 0 };
}

/* Ids count up in steps: the multiplication spreads them over the upper bits. */
static size_t hash(uint64_t id)
{
	return (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 20);
}

static struct id_array array_create(size_t slots)
{
	return (struct id_array){
		.slots = mem_zalloc(slots * sizeof(struct id_slot)),
		.mask = slots - 1,
	};
}

/* The slot with that id, or the free one where it would be. */
static size_t find_slot(const struct id_array *a, uint64_t id)
{
	size_t i = hash(id) & a->mask;

	while (a->slots[i].what && a->slots[i].id != id)
		i = (i + 1) & a->mask;
	return i;
}

static void put(struct id_array *a, uint64_t id, void *what)
{
	a->slots[find_slot(a, id)] = (struct id_slot){ id, what };
	a->count++;
}

/* Those behind it move up, unless they would come before their place: so no search
 * ends too early, and no slot is lost. */
static void free_slot(struct id_array *a, size_t hole)
{
	size_t i = hole;

	for (;;) {
		size_t home;

		i = (i + 1) & a->mask;
		if (!a->slots[i].what)
			break;
		home = hash(a->slots[i].id) & a->mask;
		if (((i - home) & a->mask) < ((i - hole) & a->mask))
			continue;
		a->slots[hole] = a->slots[i];
		hole = i;
	}
	a->slots[hole].what = NULL;
	a->count--;
}

/* A slot that is emptied may be filled from behind: it is looked at again. */
static void move_some(struct id_table *t)
{
	struct id_array *old = &t->old;

	for (int n = 0; n < MOVE_STEP && old->count > 0; n++) {
		struct id_slot *slot = &old->slots[t->moved & old->mask];

		if (!slot->what) {
			t->moved++;
			continue;
		}
		put(&t->now, slot->id, slot->what);
		free_slot(old, t->moved & old->mask);
	}
	if (old->slots && old->count == 0) {
		mem_free(old->slots);
		*old = (struct id_array){ 0 };
	}
}

static void grow(struct id_table *t)
{
	size_t slots = t->now.slots ? 2 * (t->now.mask + 1) : SLOTS_MIN;

	while (t->old.count > 0)
		move_some(t);
	t->old = t->now;
	t->now = array_create(slots);
	t->moved = 0;
	move_some(t);
}

void *id_table_find(const struct id_table *t, uint64_t id)
{
	void *what = t->now.slots ? t->now.slots[find_slot(&t->now, id)].what : NULL;

	if (!what && t->old.slots)
		what = t->old.slots[find_slot(&t->old, id)].what;
	return what;
}

void id_table_add(struct id_table *t, uint64_t id, void *what)
{
	size_t wanted = id_table_count(t) + 1;

	if (!t->now.slots || wanted > t->now.mask / 4 * 3)
		grow(t);
	else
		move_some(t);
	put(&t->now, id, what);
}

void id_table_remove(struct id_table *t, uint64_t id)
{
	struct id_array *arrays[] = { &t->now, &t->old };

	for (int i = 0; i < 2; i++) {
		size_t at;

		if (!arrays[i]->slots)
			continue;
		at = find_slot(arrays[i], id);
		if (arrays[i]->slots[at].what) {
			free_slot(arrays[i], at);
			break;
		}
	}
	move_some(t);
}
