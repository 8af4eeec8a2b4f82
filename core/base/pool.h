/* pool.h: free lists of equal-sized objects, for what the hot path makes and
 * drops with every message. A pool keeps at most `keep_max` free objects. */
#ifndef TIDE_BASE_POOL_H
#define TIDE_BASE_POOL_H

#include <stddef.h>

struct pool {
	size_t size;
	size_t keep_max;
	size_t free_count;
	void *free_list;
};

void pool_init(struct pool *p, size_t size, size_t keep_max);
/* Frees the free objects; those in use must have been given back. */
void pool_deinit(struct pool *p);
/* An object whose bytes are zero. */
void *pool_take(struct pool *p) __attribute__((returns_nonnull));
/* An object whose bytes are whatever they were. */
void *pool_take_raw(struct pool *p) __attribute__((returns_nonnull));
void pool_give(struct pool *p, void *object);

#endif
