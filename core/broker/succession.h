/* succession.h: who takes the messages of a single-active queue: one subscription at a
 * time. The others stand in line.
 *
 * The line is in the order of priority, then of arrival, and its first one is to be
 * active. When the active one goes, the next takes over at once. When one of a higher
 * priority comes, the active one is relieved: it gets nothing more, and its successor
 * begins when all that it holds is settled. So two never work at a time, unless one has
 * gone and has left what it holds to its channel. */
#pragma once

#include "queue.h"

/* Stand in line, last of its priority. */
void succession_enter(struct queue *q, struct consumer *c);
/* The consumer goes. */
void succession_leave(struct queue *q, struct consumer *c);
/* Choose the active consumer anew, before the queue deals: one has come, gone, or
 * settled its last message. */
void succession_settle(struct queue *q);
