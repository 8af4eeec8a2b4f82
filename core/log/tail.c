#include "tail.h"

#include "base/mem.h"
#include "partition_private.h"

/* Of the allocator, for each of two blocks; and the place in the ring. */
#define COST_BESIDE (sizeof(struct tail_batch) + 2 * 16 + sizeof(void *))

static size_t tail_cost(const struct record_batch *b)
{
	return sizeof(*b) + b->len + COST_BESIDE;
}

static void grow(struct tail *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : 4;
	struct tail_batch **ring = mem_alloc(cap * sizeof(struct tail_batch *));

	for (uint64_t n = t->first; n < t->first + t->count; n++)
		ring[n & (cap - 1)] = t->ring[n & (t->cap - 1)];
	mem_free(t->ring);
	t->ring = ring;
	t->cap = cap;
}

static void account(struct partition *p, const struct record_batch *b, bool is_added)
{
	size_t *total = p->keys ? &p->env->tail_bytes : &p->env->memory_bytes;
	size_t cost = is_added ? tail_cost(b) : -tail_cost(b);

	*total += cost;
	p->tail.bytes += cost;
}

void tail_push(struct partition *p, struct record_batch *b)
{
	struct tail *t = &p->tail;
	struct tail_batch *item = mem_alloc(sizeof(*item));

	if (t->count == t->cap)
		grow(t);
	item->partition = p;
	item->batch = record_batch_ref(b);
	t->ring[(t->first + t->count++) & (t->cap - 1)] = item;
	if (p->keys)
		TAILQ_INSERT_TAIL(&p->env->tail, item, link);
	account(p, b, true);
}

void tail_drop_first(struct partition *p)
{
	struct tail *t = &p->tail;
	struct tail_batch *item = t->ring[t->first & (t->cap - 1)];

	if (p->keys)
		TAILQ_REMOVE(&p->env->tail, item, link);
	account(p, item->batch, false);
	record_batch_unref(item->batch);
	mem_free(item);
	t->first++;
	if (--t->count > 0)
		return;
	mem_free(t->ring);
	t->ring = NULL;
	t->cap = 0;
}

void tail_clear(struct partition *p)
{
	while (p->tail.count > 0)
		tail_drop_first(p);
}

void tail_shrink(struct partition_env *env)
{
	while (env->tail_bytes > env->tail_max_bytes && !TAILQ_EMPTY(&env->tail))
		tail_drop_first(TAILQ_FIRST(&env->tail)->partition);
}

uint64_t tail_find(const struct tail *t, uint64_t offset)
{
	uint64_t low = t->first, high = t->first + t->count - 1;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (tail_at(t, middle)->end > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}
