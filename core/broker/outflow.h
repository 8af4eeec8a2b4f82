/* outflow.h: what holds the deliveries of a queue back, though consumers could take them:
 * a pause, and the rate= of DECLARE.
 *
 * A rate is an interval between deliveries. What a late turn of the event loop missed is
 * made up for, up to OUTFLOW_CREDIT_MS of it. */
#pragma once

#include "queue.h"

#define OUTFLOW_CREDIT_MS 20

/* For a queue that is metered. When a rate is in the way, the queue is looked at again
 * when the next delivery is due. */
bool outflow_is_open(struct queue *q);
/* A message of a metered queue was delivered. */
void outflow_count(struct queue *q);
