/* container.h: from a member to the structure that embeds it. */
#pragma once

#include <stddef.h>

/* `pointer` is the address of the member `member` of a `type`. */
#define container_of(pointer, type, member) \
	((type *)((char *)(pointer)-offsetof(type, member)))
