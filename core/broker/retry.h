/* retry.h: what happens to a message that was not acknowledged.
 *
 * Every way back goes through here: the failure is counted, the delivery limit
 * is applied, the queue's retry script is asked, and what it decides is done. */
#ifndef TIDE_BROKER_RETRY_H
#define TIDE_BROKER_RETRY_H

#include "shard/entry.h"

/* `reason` is one of "nack" "timeout" "gone" "expired". */
void retry_failed(struct entry *e, const char *reason);
/* A NACK that says itself when: the script is not asked, the delivery limit
 * holds. */
void retry_after(struct entry *e, int64_t delay_ms);
/* A NACK that says that it is hopeless. */
void retry_dead(struct entry *e, const char *reason);
/* Returned unpunished: its consumer went away while at work on another. */
void retry_unpunished(struct entry *e);

#endif
