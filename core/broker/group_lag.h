/* group_lag.h: how far groups are behind. */
#pragma once

#include "group.h"

/* Messages of a partition that the group has not settled. */
uint64_t group_lag_in(const struct topic_group *g, unsigned partition);
/* Of all partitions together. */
uint64_t group_lag_all(const struct topic_group *g);
/* When the oldest of these was appended, ms since 1970; 0: there is none. Negative: not
 * known, since it is not in memory. */
int64_t group_lag_since(const struct topic_group *g);
