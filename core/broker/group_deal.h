/* group_deal.h: who gets the next message of a topic. */
#pragma once

#include "group.h"

/* As deal_queue, for a topic. */
bool group_deal(struct queue *q);
/* Likewise for a GET that has just joined its line (pull.h): it, and those before it, are
 * given what is there. False: it was answered, and has gone. */
bool group_deal_pull(struct getter *pull);
/* As deal_answer, for such a GET. */
void group_deal_answer(struct getter *pull);
