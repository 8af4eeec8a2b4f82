/* hot_paths_stomp.h: the sections of STOMP, twins of those of the line protocol. */
#ifndef TIDE_GUARD_HOT_PATHS_STOMP_H
#define TIDE_GUARD_HOT_PATHS_STOMP_H

#include "bench.h"

#define HOT_PATHS_STOMP_COUNT 3

extern const struct section hot_paths_stomp[HOT_PATHS_STOMP_COUNT];

/* Connect b->stomp and subscribe it. */
void hot_paths_stomp_init(struct bench *b);
void hot_paths_stomp_deinit(struct bench *b);

#endif
