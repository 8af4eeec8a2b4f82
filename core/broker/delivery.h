/* delivery.h: who gets the next message of a queue.
 *
 * The scripts of deliver/ are asked whether a consumer gets a message, and with which
 * headers. What a script refuses waits for another consumer: refusal.h. What it delays is
 * a delayed message. When a script fails, nobody gets the message; it is tried again
 * after five seconds. Where messages have an order, a delayed one keeps its place: it
 * counts as an attempt. */
#pragma once

#include "getter.h"
#include "queue.h"

/* Is there a script for the queue? */
bool delivery_is_asked(const struct queue *q);
/* The question to scripts about a message of a topic, whose order is kept. */
struct delivery_question {
	const struct msg *msg;
	uint32_t attempt;
	unsigned partition;
	uint64_t offset;
};
/* Is it given? Otherwise it is delayed, by delay_ms. @param head  receives a reference:
 * the headers that the consumer gets it with; NULL: its own */
bool delivery_ask_record(struct consumer *c, const struct delivery_question *r,
			 struct msg **head, int64_t *delay_ms);

/* The hooks by which the shards tell their queue. */
extern const struct shard_ops delivery_shard_ops;

/* A GET that takes what matches looks at so many messages in memory. */
#define DELIVERY_MATCH_MESSAGES 10000

/* Deliver what is ready to those who can take it. Gives whether there is
 * more to do at once. */
bool delivery_turn(struct queue *q);

/* Give a message to a GET that is in no queue's list, and end it. The entry may be in any
 * stage, or moving. TIDE_EDENIED, TIDE_EBUSY, TIDE_ERULE: a script of deliver/ refuses or
 * delays it, or fails; nothing has changed. */
TIDE_MUST_USE int delivery_take(struct queue *q, struct getter *g, struct entry *e,
				struct error *err);

/* The time of a GET is over: it takes what is there now, up to its `max`. When
 * Redis is just being asked for more it waits for that. */
void delivery_answer(struct getter *g);
