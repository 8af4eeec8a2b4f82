/* group_seek.h: a group goes on somewhere else, or begins. */
#pragma once

#include "group.h"

/* Go on from there, in one partition. What is held is forgotten: its tags are lost. The
 * offset is kept, and written. A position by time is looked for; nothing is given out
 * until it is found. The waiter, unless NULL, is told when Redis has it. */
void group_seek(struct group_claim *gc, const struct position *to, struct waiter *waiter);
/* The claim goes: nobody needs the position any more. */
void group_seek_cancel(struct group_claim *gc);
