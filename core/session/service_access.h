/* service_access.h: what sessions may do changes while they work. */
#pragma once

#include "service.h"

/* Users or rules have changed. From now on each request is asked about anew. Sessions of
 * users that were deleted end; so does, at the end of this turn or in the next ones, what
 * was begun by a right that is no longer there: see session_recheck. */
void service_access_recheck(struct service *s);
/* Go on with it. What scripts have allowed is asked about again every 10 s. */
void service_access_turn(struct service *s);
/* When that is, wall clock; 0: never. */
int64_t service_access_due_ms(const struct service *s);
