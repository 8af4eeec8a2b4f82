/* settle.h: the fate of an entry of a queue is carried out.
 *
 * Every way back goes through here. The scripts of settled/ are told first, and what they
 * publish is stored; until that is durable, the message stays, out of circulation. */
#pragma once

#include "shard/entry.h"
#include "fate.h"

struct waiter;

/* The entry as fate.h wants it. @param m  as scripts see it */
struct fate_subject settle_subject(const struct entry *e, const struct msg *m);

/* Decide the fate of a message, whoever holds it, and apply it now or later.
 *
 * @param delay_ms  of FATE_NACKED_LATER */
void settle_entry(struct entry *e, enum fate_cause cause, int64_t delay_ms);
/* Likewise, FATE_ACKED or FATE_REMOVED. The waiter, which may be NULL, is told when Redis
 * has forgotten it. */
void settle_remove(struct entry *e, enum fate_cause cause, struct waiter *w);
/* Acknowledge a message by its delivery, which is counted already.
 *
 * @param l  who has it */
void settle_delivered(struct entry *e, const struct lease *l);

/* A NACK that names another priority, before its fate is decided: the queue ranks the
 * message anew. */
void settle_set_priority(struct entry *e, uint8_t priority);
/* A NACK that says why, likewise: whoever gets the message next sees the text. */
void settle_set_reason(struct entry *e, struct slice text);
/* The message with that text, for what is carried out later; its own if it has the text,
 * and without memory. A reference. An empty text is that of before. */
struct msg *settle_with_reason(const struct entry *e, struct slice text);
/* Tell who follows the message, before its fate is carried out. */
void settle_trace(const struct entry *e, const struct fate *fate);
