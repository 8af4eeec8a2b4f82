/* container.h: from an embedded struct to the struct that holds it. */
#ifndef TIDE_BASE_CONTAINER_H
#define TIDE_BASE_CONTAINER_H

#include <stddef.h>

/* The struct of `type` whose member `member` is at `pointer`. */
#define container_of(pointer, type, member) \
	((type *)((char *)(pointer)-offsetof(type, member)))

#endif
