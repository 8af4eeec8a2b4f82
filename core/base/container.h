/* container.h: from a member to the structure that embeds it. */
#ifndef TIDE_BASE_CONTAINER_H
#define TIDE_BASE_CONTAINER_H

#include <stddef.h>

/* `pointer` is the address of the member `member` of a `type`. */
#define container_of(pointer, type, member) \
	((type *)((char *)(pointer)-offsetof(type, member)))

#endif
