/* mem.h: allocation.
 *
 * The broker's own small structures come from mem_alloc, which aborts without memory: a
 * broker holds nothing confirmed alone, and no test would reach a check behind every
 * allocation. Sizes that a peer chooses (payloads, buffers) come from mem_try_alloc and
 * mem_try_realloc, whose failure is answered to that peer. */
#pragma once

#include <stddef.h>

void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_zalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_realloc(void *old, size_t size) __attribute__((returns_nonnull));
char *mem_strdup(const char *text) __attribute__((malloc, returns_nonnull));
/* A zero-terminated copy of `len` bytes. */
char *mem_strndup(const char *text, size_t len) __attribute__((malloc, returns_nonnull));
void *mem_try_alloc(size_t size) __attribute__((malloc));
void *mem_try_realloc(void *old, size_t size);
void mem_free(void *p);
/* From now on no freed block is set aside for another of its size (glibc's fastbins).
 * Those of a whole Lua state, which a thread frees, would be joined some time, all at
 * once: for half a second every thread that allocates waits. */
void mem_join_early(void);
/* Report the size on standard error and abort: the only I/O of base. */
void mem_fail(size_t size) __attribute__((noreturn));

/* Make room for one more item behind `count` of the array `items`, which has `cap`
 * places: `first` places, then twice as many. Each argument may be evaluated several
 * times. */
#define MEM_GROW(items, count, cap, first)                                        \
	do {                                                                      \
		if ((count) >= (cap)) {                                           \
			(cap) = (cap) ? (cap)*2 : (first);                        \
			(items) = mem_realloc((items), (cap) * sizeof(*(items))); \
		}                                                                 \
	} while (0)

/* Free lists of equal-sized objects, for what the hot path makes and
 * drops with every message. A pool keeps at most `keep_max` free objects. */

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
