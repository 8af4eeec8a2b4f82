/* failing_mem.h: the n-th mem_try_alloc or mem_try_realloc fails.
 *
 * Linked with -Wl,--wrap, so it is for calls from outside mem.c. */
#ifndef TIDE_TEST_FAILING_MEM_H
#define TIDE_TEST_FAILING_MEM_H

#include <stddef.h>

/* 1 = the next call fails; counts down. 0 = none does. */
static unsigned mem_fail_at;

void *__real_mem_try_alloc(size_t size);
void *__real_mem_try_realloc(void *old, size_t size);
void *__wrap_mem_try_alloc(size_t size);
void *__wrap_mem_try_realloc(void *old, size_t size);

void *__wrap_mem_try_alloc(size_t size)
{
	if (mem_fail_at > 0 && --mem_fail_at == 0)
		return NULL;
	return __real_mem_try_alloc(size);
}

void *__wrap_mem_try_realloc(void *old, size_t size)
{
	if (mem_fail_at > 0 && --mem_fail_at == 0)
		return NULL;
	return __real_mem_try_realloc(old, size);
}

#endif
