/* overflow.h: a queue that is over a limit gives up its first messages, or
 * its last ones. */
#pragma once

#include <stdbool.h>

#include "shard/entry.h"

struct queue;

/* After its consumers have been served. True: there is more to do in the next turn. */
bool overflow_turn(struct queue *q);
