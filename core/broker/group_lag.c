#include "group_lag.h"

/* The first message that the group has not settled. */
static uint64_t first_left(const struct topic_group *g, const struct partition *p,
			   unsigned index)
{
	uint64_t committed = group_committed(g, index);

	return committed == GROUP_UNKNOWN || committed < partition_start(p)
		       ? partition_start(p)
		       : committed;
}

uint64_t group_lag_in(const struct topic_group *g, unsigned partition)
{
	const struct partition *p = g->topic->partitions[partition];

	return p ? partition_readable(p) - first_left(g, p, partition) : 0;
}

uint64_t group_lag_all(const struct topic_group *g)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < group_width(g); i++)
		sum += group_lag_in(g, i);
	return sum;
}

int64_t group_lag_since(const struct topic_group *g)
{
	int64_t oldest = 0;

	for (unsigned i = 0; i < group_width(g); i++) {
		const struct partition *p = g->topic->partitions[i];
		int64_t since;

		if (group_lag_in(g, i) == 0)
			continue;
		since = partition_time_at(p, first_left(g, p, i));
		if (!since)
			return -1;
		oldest = heap_earlier(oldest, since);
	}
	return oldest;
}
