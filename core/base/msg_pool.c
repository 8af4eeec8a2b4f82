#include "msg_pool.h"

#include "mem.h"
#include "pool.h"

/* What a free block's first bytes hold. */
struct block {
	struct block *next;
};

void msg_pool_init(struct msg_pool *p)
{
	*p = (struct msg_pool){ 0 };
}

void msg_pool_deinit(struct msg_pool *p)
{
	for (size_t i = 0; i < MSG_POOL_SIZES; i++) {
		struct block *block = p->free_lists[i], *next;

		for (; block; block = next) {
			next = block->next;
			mem_free(block);
		}
	}
	msg_pool_init(p);
}

void *msg_pool_try_take(struct msg_pool *p, size_t *bytes)
{
	size_t steps = (*bytes + MSG_POOL_STEP - 1) / MSG_POOL_STEP;
	struct block *block;

	if (*bytes > MSG_POOL_BLOCK_MAX)
		return mem_try_alloc(*bytes);
	*bytes = steps * MSG_POOL_STEP;
	block = p->free_lists[steps];
	if (!block)
		return mem_try_alloc(*bytes);
	p->free_lists[steps] = block->next;
	p->kept_bytes -= *bytes;
	return block;
}

void msg_pool_give(struct msg_pool *p, void *memory, size_t bytes)
{
	struct block *block = memory;

	if (bytes > MSG_POOL_BLOCK_MAX || p->kept_bytes + bytes > MSG_POOL_KEEP_BYTES ||
	    POOL_KEEPS_NOTHING) {
		mem_free(memory);
		return;
	}
	block->next = p->free_lists[bytes / MSG_POOL_STEP];
	p->free_lists[bytes / MSG_POOL_STEP] = block;
	p->kept_bytes += bytes;
}
