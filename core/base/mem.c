#include "mem.h"

#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mem_fail(size_t size)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	/* A reader that does not read must not keep the process. */
	if (poll(&p, 1, 0) > 0)
		dprintf(p.fd, "tidemq: out of memory (%zu bytes)\n", size);
	abort();
}

void mem_join_early(void)
{
	mallopt(M_MXFAST, 0);
}

static void *check(void *p, size_t size)
{
	if (!p)
		mem_fail(size);
	return p;
}

/* malloc(0) may be NULL, which is no failure; one byte is never in doubt. */
static size_t at_least_one(size_t size)
{
	return size ? size : 1;
}

void *mem_alloc(size_t size)
{
	return check(mem_try_alloc(size), size);
}

void *mem_zalloc(size_t size)
{
	return check(calloc(1, at_least_one(size)), size);
}

void *mem_realloc(void *old, size_t size)
{
	return check(mem_try_realloc(old, size), size);
}

char *mem_strdup(const char *text)
{
	return mem_strndup(text, strlen(text));
}

char *mem_strndup(const char *text, size_t len)
{
	char *copy = mem_alloc(len + 1);

	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

void *mem_try_alloc(size_t size)
{
	return malloc(at_least_one(size));
}

void *mem_try_realloc(void *old, size_t size)
{
	return realloc(old, at_least_one(size));
}

void mem_free(void *p)
{
	free(p);
}

/* The first bytes of a free object. */
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
