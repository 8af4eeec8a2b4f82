/* group_death.h: a message of a topic that is settled when what it leaves is durable: the
 * copy of one that has failed for good, for its target; or what scripts of settled/
 * publish.
 *
 * Its claim keeps it as one that comes again at no time, until that is so. A dead letter
 * that nobody takes is published again 5 s later. */
#pragma once

#include "group.h"

struct draft_copies;

#define GROUP_DEATH_NEVER_MS (INT64_MAX / 4)
/* When a message comes again whose copy is on its way. No two are the same: the claim
 * would make one run of neighbours. */
int64_t group_death_never(struct broker *b);
/* Publish the copy, which is taken, for the message at that offset. */
void group_death_start_take(struct group_claim *gc, uint64_t offset, struct msg *copy);
/* Likewise what scripts publish; what nobody takes is lost. */
void group_death_wait_take(struct group_claim *gc, uint64_t offset,
			   struct draft_copies *copies);
/* The claim goes, or goes on elsewhere: copies that are on their way are of nobody. */
void group_death_forget(struct group_claim *gc);
/* Publish again what was refused. */
void group_death_turn(struct broker *b);
/* When that is, wall clock; 0: there is none. */
int64_t group_death_due_ms(const struct broker *b);
