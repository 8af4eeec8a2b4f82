/* pool.h: free lists of equal-sized objects, for what the hot path makes and
 * drops with every message. A pool keeps at most `keep_max` free objects. */
#pragma once

#include <stddef.h>

/* Under AddressSanitizer nothing is kept, so that it sees uses after the end. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_KEEPS_NOTHING 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define POOL_KEEPS_NOTHING 1
#endif
#ifndef POOL_KEEPS_NOTHING
#define POOL_KEEPS_NOTHING 0
#endif

struct pool {
	size_t size;
	size_t keep_max;
	size_t free_count;
	void *free_list;
};

void pool_init(struct pool *p, size_t size, size_t keep_max);
/* Frees the free objects; those in use must have been given back. */
void pool_deinit(struct pool *p);
/* An object whose bytes are whatever they were. */
void *pool_take(struct pool *p) __attribute__((returns_nonnull));
void pool_give(struct pool *p, void *object);
