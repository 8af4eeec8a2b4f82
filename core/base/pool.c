#include "pool.h"

#include "mem.h"

/* What a free object's first bytes hold. */
struct link {
	struct link *next;
};

void pool_init(struct pool *p, size_t size, size_t keep_max)
{
	*p = (struct pool){
		.size = size > sizeof(struct link) ? size : sizeof(struct link),
		.keep_max = POOL_KEEPS_NOTHING ? 0 : keep_max,
	};
}

void pool_deinit(struct pool *p)
{
	struct link *link = p->free_list;

	while (link) {
		struct link *next = link->next;

		mem_free(link);
		link = next;
	}
	p->free_list = NULL;
	p->free_count = 0;
}

void *pool_take(struct pool *p)
{
	struct link *link = p->free_list;

	if (!link)
		return mem_alloc(p->size);
	p->free_list = link->next;
	p->free_count--;
	return link;
}

void pool_give(struct pool *p, void *object)
{
	if (!object)
		return;
	if (p->free_count >= p->keep_max) {
		mem_free(object);
		return;
	}
	struct link *link = object;
	link->next = p->free_list;
	p->free_list = link;
	p->free_count++;
}
