/* dead_letter.h: a message that failed for good goes to the queue's target. */
#pragma once

#include "base/slice.h"
#include "shard/entry.h"

struct queue;

/* Publish a copy to the queue's dead-letter target, with headers that say why,
 * from where, how often and by which rule, and remove the message here when
 * the copy is durable. Without a target, or when nobody takes the copy, the
 * message is buried; so is one that has died as often as the queue's
 * death-limit says. */
void dead_letter(struct entry *e, const char *reason, const char *rule);

/* The copy alone, for who publishes it and removes the message by a commit. NULL: there
 * can be none. */
struct msg *dead_letter_copy(const struct entry *e, const char *reason, const char *rule);
/* Likewise of any message. */
struct dead_letter_facts {
	const char *reason;
	const char *rule;
	uint32_t attempts;
};
struct msg *dead_letter_make(struct queue *q, const struct msg *m,
			     const struct dead_letter_facts *f);
/* It was published. */
void dead_letter_count(struct queue *q);
