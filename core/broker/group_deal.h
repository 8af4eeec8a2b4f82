/* group_deal.h: who gets the next message of a topic. */
#pragma once

#include "group.h"

/* As deal_queue, for a topic. */
bool group_deal(struct queue *q);
