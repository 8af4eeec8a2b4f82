/* offer.h: the scripts of deliver/ are asked whether a consumer gets a message, and with
 * which headers.
 *
 * What a script refuses waits for another consumer: refusal.h. What it delays is a
 * delayed message. When a script fails, nobody gets the message; it is tried again after
 * OFFER_FAILED_MS. Where messages have an order, a delayed one keeps its place: it counts
 * as an attempt. */
#pragma once

#include "queue.h"

#define OFFER_FAILED_MS 5000

/* Is there a script for the queue? */
bool offer_is_used(const struct queue *q);
/* Does the consumer get the message, which is ready? Otherwise it is refused to it, or
 * has been delayed. @param head  receives a reference: the headers that it gets it with;
 * NULL: its own */
bool offer_ask(struct consumer *c, struct entry *e, struct msg **head);
/* The same for a message of a topic, whose order is kept: it is given or delayed.
 *
 * @param delay_ms  receives the delay, if it is not given */
struct offer_record {
	const struct msg *msg;
	uint32_t attempt;
	unsigned partition;
	uint64_t offset;
};
bool offer_ask_record(struct consumer *c, const struct offer_record *r, struct msg **head,
		      int64_t *delay_ms);
/* The same for a message that is asked for by its id: what is wrong is told, and nothing
 * changes. */
TIDE_MUST_USE int offer_ask_one(struct consumer *c, const struct entry *e,
				struct msg **head, struct error *err);
