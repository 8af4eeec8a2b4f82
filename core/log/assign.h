/* assign.h: who of a group reads which partition.
 *
 * Each partition has one member at most. No member has two more than another. No more
 * partitions change hands than that asks for. The same arguments give the same result. */
#pragma once

#define ASSIGN_NONE ((unsigned)-1)

/* Assign `partitions` among `members`, which are known by numbers from 0 on.
 *
 * @param owners  of each partition: before the call who had it (any other number, such as
 *                ASSIGN_NONE: nobody, or one who has gone), after it who has it. Without
 *                members: ASSIGN_NONE. */
void assign_partitions(unsigned *owners, unsigned partitions, unsigned members);
