/* group_commit.h: committed offsets are written behind, all of a partition at once.
 *
 * An ack is answered when the claim has it. What has been committed is with Redis
 * GROUP_COMMIT_MS later, and at the end of the broker. */
#pragma once

#include "group.h"

#define GROUP_COMMIT_MS 100

/* `committed` has moved. */
void group_commit_mark(struct group_claim *gc);
/* Write what is due. */
void group_commit_turn(struct broker *b);
/* When it is, wall clock; 0: nothing is to be written. */
int64_t group_commit_due_ms(const struct broker *b);
/* Write it now. False: it is not kept, and on_done does not come. */
bool group_commit_now(struct group_claim *gc, store_done_fn on_done, void *ctx);
/* Redis forgets the group in that partition. `waiter` may be NULL. */
void group_commit_erase(struct topic_group *g, unsigned partition, struct waiter *waiter);
/* The topic goes: nobody needs to know any more. */
void group_commit_forget(struct group_watch *w);
