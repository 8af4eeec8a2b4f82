/* group_deal.h: who gets the next message of a topic. */
#pragma once

#include "group.h"

/* As deal_queue, for a topic. */
bool group_deal(struct queue *q);
/* Reads that have failed are tried again. */
void group_deal_turn(struct broker *b);
/* When that is, wall clock; 0: there is none. */
int64_t group_deal_due_ms(const struct broker *b);
