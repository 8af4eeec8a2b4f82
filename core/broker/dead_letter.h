/* dead_letter.h: a message that failed for good goes to the queue's target. */
#pragma once

#include "base/slice.h"
#include "shard/entry.h"

/* Publish a copy to the queue's dead-letter target, with headers that say why,
 * from where, how often and by which rule, and remove the message here when
 * the copy is durable. Without a target, or when nobody takes the copy, the
 * message is buried; so is one that has died as often as the queue's
 * death-limit says. */
void dead_letter(struct entry *e, const char *reason, const char *rule);
