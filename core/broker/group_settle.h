/* group_settle.h: what becomes of messages of topics that were given out.
 *
 * A run (log/claim.h) is with a holder. An ack settles a part of it at once. Each message
 * that fails asks the topic's retry script, as one of a queue does: it comes again, at
 * once or later; it is dead-lettered; or the group gives it up. Given up
 * is no loss: the message is still in the log. */
#pragma once

#include "consumer.h"
#include "fate.h"
#include "group.h"

struct draft_copies;

/* Settle the records of the run with tags from `first` to `last`. Gives how many. */
uint64_t group_settle_ack(struct run *run, uint64_t first, uint64_t last);
/* Likewise: so long are their leases; the one that has begun begins anew. 0: as long as
 * before. */
uint64_t group_settle_touch(struct run *run, uint64_t first, uint64_t last, int64_t ms);

/* Likewise, for a NACK that says why, before it fails or returns. Gives the run that has
 * these messages now, and no others. */
struct run *group_settle_set_reason(struct run *run, uint64_t first, uint64_t last,
				    struct slice text);

/* Settle the record of that tag, which the run has, by that cause.
 *
 * @param delay_ms  of FATE_NACKED_LATER */
void group_settle_fail(struct run *run, uint64_t tag, enum fate_cause cause,
		       int64_t delay_ms);
/* Does the group go on without the consumer? A reader's group ends with its reader. */
bool group_settle_comes_again(const struct run *run);
/* Return the records of the run with these tags, unpunished: no consumer was at work on
 * them.
 *
 * @param cause  FATE_REQUEUED, FATE_RETURNED */
void group_settle_return(struct run *run, uint64_t first_tag, uint64_t count,
			 enum fate_cause cause);
/* Before it, or before they fail: their lease has ended. */
void group_settle_lapse(struct run *run, uint64_t first_tag, uint64_t count);
/* A late ack: the message was given out, has come back, and is with nobody or with that
 * holder, which may be NULL. `tag`: by which that one has it; 0: nobody has. False: it is
 * not. */
bool group_settle_ack_late(struct group_claim *gc, uint64_t offset,
			   const struct holder *h, uint64_t *tag);
/* The topic of its messages. */
const struct queue *group_settle_queue(const struct run *run);
/* The claim goes, or goes on elsewhere: holders forget its records, and nobody waits for
 * its dead letters.
 * A claim_reset or the end of the claim follows. */
void group_settle_forget(struct group_claim *gc);

/* Return the records whose delay is over; publish the dead letters that were refused. */
void group_settle_turn(struct broker *b);
/* When the next one is, wall clock; 0: none. */
int64_t group_settle_due_ms(const struct broker *b);
