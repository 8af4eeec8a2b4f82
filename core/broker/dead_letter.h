/* dead_letter.h: a message that failed for good goes to the queue's target. */
#pragma once

#include "base/slice.h"
#include "shard/entry.h"

struct queue;
struct retry_extra;

/* Publish a copy to the queue's dead-letter target, with headers that say why,
 * from where, how often and by which rule, and remove the message here when
 * the copy is durable. Without a target, or when nobody takes the copy, the
 * message is buried; so is one that has died as often as the queue's
 * death-limit says. */
struct dead_letter_facts {
	const char *reason;
	const char *rule;
	uint32_t attempts;
	const struct retry_extra *extra; /* may name another target; may be NULL */
};
void dead_letter(struct entry *e, const struct dead_letter_facts *f);

/* The copy alone, for who publishes it and removes the message by a commit. NULL: there
 * can be none. */
struct msg *dead_letter_make(struct queue *q, const struct msg *m,
			     const struct dead_letter_facts *f);
/* Is there anywhere to go? */
bool dead_letter_has_target(const struct queue *q, const struct retry_extra *extra);
/* Count a dead letter that was published. */
void dead_letter_count(struct queue *q);
