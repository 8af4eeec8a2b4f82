/* group_env.h: what the groups of all topics share: a part of struct broker. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/heap.h"

TAILQ_HEAD(group_watch_list, group_watch);

/* Times are those of the clock that nobody sets. */
struct group_env {
	struct heap runs;              /* of claims: what comes again later */
	struct heap deaths;            /* dead letters that nobody took: group_settle.c */
	struct group_watch_list dirty; /* partitions with offsets to write */
	int64_t commit_due_ms;         /* when they are; good while there are some */
	unsigned commits;              /* under way */
	uint64_t death_count;
	/* When the log last said that Redis refuses them, or that nobody takes them. */
	int64_t commit_logged_ms, death_logged_ms;
};

/* No offset is to be written, or being written. */
static inline bool group_env_is_idle(const struct group_env *env)
{
	return TAILQ_EMPTY(&env->dirty) && env->commits == 0;
}
